// Elements from code. Nothing parses markup: the pages run under a policy that requires Trusted Types.
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

/** A small drawing that says nothing its neighbour does not. */
export function icon(name: string, ...paths: string[]): SVGElement {
  const of = (tag: string, props: Props, ...children: Child[]): SVGElement => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    dress(node, props, children);
    return node;
  };
  const strokes = paths.map((d) => of("path", { d }));
  return of("svg", { viewBox: "0 0 24 24", class: `icon ${name}`, "aria-hidden": "true" }, ...strokes);
}

let made = 0;

/** An id for what labels and describes a control. */
export function freshId(name: string): string {
  return `${name}-${++made}`;
}
