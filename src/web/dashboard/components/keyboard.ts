// Keys that are pressed, and where the focus goes when what has it leaves the page.
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** Not one that the browser knows, such as Alt and an arrow for Back, or that something else has handled. */
export const isPlainKey = ({ ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean =>
  !(ctrlKey || metaKey || altKey || defaultPrevented);

/** The page's heading takes it, without scrolling away from what a mouse has pressed. */
export const focusPage = (scrolls = true): void => document.querySelector("h1")?.focus({ preventScroll: !scrolls });

/** Unless something else takes the focus when this element leaves with it. */
export function useFocusAfter(ref: RefObject<HTMLElement>): void {
  useLayoutEffect(
    () => () => {
      const last = ref.current?.contains(document.activeElement) ? document.activeElement : null;
      const isByKeyboard = last?.matches(":focus-visible") ?? false;
      queueMicrotask(() => last && document.activeElement === document.body && focusPage(isByKeyboard));
    },
    [],
  );
}
