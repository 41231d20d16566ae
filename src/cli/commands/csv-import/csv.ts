// Reads CSV after RFC 4180: commas, double quotes, doubled quotes inside quotes; LF or CRLF. Skips a byte order mark.
import { ExitError } from "../../ui/output.ts";

export function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  const source = text.replace(/^\uFEFF/, "");
  while (field.lastIndex < source.length) {
    const at = field.lastIndex;
    const match = field.exec(source);
    if (!match) throw new ExitError(`Invalid CSV near "${source.slice(at, at + 20)}".`, 2);
    row.push(match[1] === undefined ? (match[2] ?? "") : match[1].replaceAll('""', '"'));
    if (match[3] === ",") {
      if (field.lastIndex === source.length) row.push("");
      else continue;
    }
    rows.push(row);
    row = [];
  }
  return rows.filter((cells) => cells.length > 1 || cells[0] !== "");
}
