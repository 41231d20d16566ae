// The heights of what stays in view while a page scrolls, as custom properties: what is focused or scrolled to must not
// be below it (styles/base.css). They change with banners, wrapped lines and the size of letters.
import { useLayoutEffect, useRef } from "preact/hooks";

/** Sets the property to the height of the element, and removes it with the element. */
export function useHeightProperty<E extends HTMLElement>(property: `--${string}`) {
  const ref = useRef<E>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const { style } = document.documentElement;
    const observer = new ResizeObserver(() => style.setProperty(property, `${element.offsetHeight}px`));
    observer.observe(element);
    return () => {
      observer.disconnect();
      style.removeProperty(property);
    };
  }, []);
  return ref;
}
