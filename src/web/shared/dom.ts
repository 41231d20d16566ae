// Builds DOM elements from code. Parses no markup and sets no inline style, so it works under Trusted Types and a
// strict content security policy.
export type Child = Node | string | null | undefined | false;
type Props = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

function apply(node: Element, props: Props, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/** Creates an HTML element. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  apply(node, props, children);
  return node;
}

/** Creates an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(node, props, children);
  return node;
}

/** A decorative icon, hidden from screen readers. `size` is the side of its view box. */
export function icon(size: number, className: string, ...paths: string[]): SVGSVGElement {
  const strokes = paths.map((d) => s("path", { d }));
  const props = { viewBox: `0 0 ${size} ${size}`, class: className, "aria-hidden": "true", focusable: "false" };
  return s("svg", props, ...strokes);
}

/**
 * Re-assigns properties that the page set before the element's class was defined: as own properties they would shadow
 * the class's accessors.
 */
export function upgradeProperties(element: HTMLElement, names: readonly string[]): void {
  const own = element as unknown as Record<string, unknown>;
  for (const name of names) {
    if (!Object.hasOwn(element, name)) continue;
    const value = own[name];
    delete own[name];
    own[name] = value;
  }
}

/** Replaces what is shown and keeps the focus: on an element that stays, or on the one that has its id now. */
export function replaceContent(root: ShadowRoot, frame: HTMLElement, parts: readonly HTMLElement[]): void {
  const focused = root.activeElement as HTMLElement | null;
  frame.replaceChildren(...parts);
  if (focused?.isConnected) focused.focus();
  else if (focused?.id) root.getElementById(focused.id)?.focus();
}
