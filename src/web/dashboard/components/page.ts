// The frame around every page. Showing a page names the document, puts the focus on its heading and so has a screen
// reader read it.
import { h, icon, type Child } from "../dom.ts";

const main = h("main", { class: "card" });

export function mount(into: Element): void {
  const mark = icon(
    "mark",
    "M13 8a5 5 0 1 1-10 0 5 5 0 0 1 10 0z",
    "M11.5 11.5 21 21",
    "M18.5 18.5l2.5-2.5",
    "M15 15l2-2",
  );
  const brand = h("a", { class: "brand", href: "#/" }, mark, "Keyrack");
  into.replaceChildren(h("header", {}, brand), main);
}

export type Tone = "good" | "bad";

const DRAWINGS: Record<Tone, string[]> = {
  good: ["M20 6.5 9.5 17.5 4 12"],
  bad: ["M12 5v8.5", "M12 18.4v.1"],
};

export type PageOptions = { title: string; tone?: Tone };

export function show({ title, tone }: PageOptions, ...children: Child[]): void {
  const heading = h("h1", { tabindex: "-1" }, title);
  const badge = tone && h("div", { class: `badge ${tone}` }, icon(tone, ...DRAWINGS[tone]));
  main.replaceChildren(
    ...[badge, heading].filter((node) => node !== undefined),
    h("div", { class: "body" }, ...children),
  );
  document.title = `${title} · Keyrack`;
  heading.focus();
}

export function text(...children: Child[]): HTMLParagraphElement {
  return h("p", {}, ...children);
}
