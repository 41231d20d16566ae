// One constructed style sheet for all portals of a page: it needs no exception in the page's style-src.
import dark from "./dark.css";
import controls from "./controls.css";
import base from "./styles.css";
import usage from "./usage.css";

/** The dark theme for the portals that a selector matches. */
const darkFor = (host: string): string => dark.replace(":host", host);

let sheet: CSSStyleSheet | undefined;

export function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    const bySystem = `@media (prefers-color-scheme: dark) { ${darkFor(":host(:not([theme=light]))")} }`;
    sheet.replaceSync(base + controls + usage + bySystem + darkFor(":host([theme=dark])"));
  }
  return sheet;
}
