// One sheet for all portals of a page. A constructed sheet needs no leave from the page's style-src.
import css from "./styles.css";

let sheet: CSSStyleSheet | undefined;

export function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
  }
  return sheet;
}
