// The portal's way of making elements, and what only the pages need.
import { s } from "../shared/dom.ts";

export { h, type Child, type Props } from "../shared/dom.ts";

/** A small drawing that says nothing its neighbour does not. */
export function icon(name: string, ...paths: string[]): SVGElement {
  const strokes = paths.map((d) => s("path", { d }));
  return s("svg", { viewBox: "0 0 24 24", class: `icon ${name}`, "aria-hidden": "true" }, ...strokes);
}

let made = 0;

/** An id for what labels and describes a control. */
export function freshId(name: string): string {
  return `${name}-${++made}`;
}
