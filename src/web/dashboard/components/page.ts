// The frame around every page. Showing a page sets the document title and focuses the heading, so that screen readers
// announce it.
import { h, icon, type Child } from "../../shared/dom.ts";

const main = h("main", { class: "card" });

export function mount(into: Element): void {
  const logo = icon(
    24,
    "icon mark",
    "M13 8a5 5 0 1 1-10 0 5 5 0 0 1 10 0z",
    "M11.5 11.5 21 21",
    "M18.5 18.5l2.5-2.5",
    "M15 15l2-2",
  );
  const brand = h("a", { class: "brand", href: "#/" }, logo, "Keyrack");
  into.replaceChildren(h("header", {}, brand), main);
}

export type Tone = "good" | "bad";

const ICON_PATHS: Record<Tone, string[]> = {
  good: ["M20 6.5 9.5 17.5 4 12"],
  bad: ["M12 5v8.5", "M12 18.4v.1"],
};

export type PageOptions = { title: string; tone?: Tone };

export function show({ title, tone }: PageOptions, ...children: Child[]): void {
  const heading = h("h1", { tabindex: "-1" }, title);
  const badge = tone && h("div", { class: `badge ${tone}` }, icon(24, `icon ${tone}`, ...ICON_PATHS[tone]));
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
