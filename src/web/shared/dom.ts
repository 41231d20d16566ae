// Elements from code. Nothing here parses markup, so pages that require Trusted Types and forbid inline styles work.
export type Child = Node | string | null | undefined | false;
export type Props = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

function dress(node: Element, props: Props, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  dress(node, props, children);
  return node;
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  dress(node, props, children);
  return node;
}

/** A small drawing that repeats what its neighbour says. */
export function icon(...paths: string[]): SVGSVGElement {
  const strokes = paths.map((d) => s("path", { d }));
  return s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true", focusable: "false" }, ...strokes);
}

/** What a page set on an element before its class was loaded stands in front of the class's accessors: set it again. */
export function adoptEarly(element: HTMLElement, names: readonly string[]): void {
  const early = element as unknown as Record<string, unknown>;
  for (const name of names) {
    if (!Object.hasOwn(element, name)) continue;
    const value = early[name];
    delete early[name];
    early[name] = value;
  }
}
