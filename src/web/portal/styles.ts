// One constructed style sheet for all portals of a page: it needs no exception in the page's style-src.
import css from "./styles.css";

let sheet: CSSStyleSheet | undefined;

export function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
  }
  return sheet;
}
