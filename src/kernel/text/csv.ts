// CSV as RFC 4180 has it. Every writer takes its texts through `withoutFormula`: names come from customers, and a
// spreadsheet would run one that begins like a formula, beside the cells of others.

const FORMULA = /^[=+\-@\t\r]/;

/** The text, with a leading apostrophe where a spreadsheet would run it as a formula. */
export function withoutFormula(text: string): string {
  return FORMULA.test(text) ? `'${text}` : text;
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
