// CSV as in RFC 4180. Every writer passes its texts through `withoutFormula`: names come from customers, and a
// spreadsheet would run one that begins like a formula, with access to other customers' cells.

/** With the full-width forms, which some spreadsheets read as the same signs. */
const LEADING = /^[=+\-@＝＋－＠\t\r\n]/;
/**
 * Inside a text. If the system's list separator is a semicolon, as in most of Europe, a spreadsheet splits the text
 * there in spite of the quotes, which are not at the start of what it takes for a cell. It also splits at line ends.
 */
const INNER = /(?:;|(?!^)[\t\r\n])(?=[" ]*[=+\-@＝＋－＠])/g;

/** The text, with an apostrophe wherever a spreadsheet would begin to run a formula. */
export function withoutFormula(text: string): string {
  const defused = text.replace(INNER, "$&'");
  return LEADING.test(defused) ? `'${defused}` : defused;
}

export function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

function cell(value: string | number | null): string {
  if (typeof value === "number") return String(value);
  const text = withoutFormula(value ?? "");
  return /[",\r\n]/.test(text) ? quoted(text) : text;
}

/** Without the end of the line. */
export function csvRow(cells: readonly (string | number | null)[]): string {
  return cells.map(cell).join(",");
}

export function toCsv(head: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  return [head, ...rows].map((row) => `${csvRow(row)}\r\n`).join("");
}
