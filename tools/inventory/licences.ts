// Licences of bundled packages: which are allowed, and where their text is.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** They ask for no more than their own text. MIT-0 is MIT without even that condition. */
const ALLOWED = new Set([
  "MIT",
  "MIT-0",
  "ISC",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "Apache-2.0",
  "0BSD",
  "BlueOak-1.0.0",
  "CC0-1.0",
  "Unlicense",
  "Zlib",
  "Python-2.0",
]);

const LICENCE_FILE = /^(licen[cs]e|copying|unlicense)([.-].*)?$/i;
const NOTICE_FILE = /^notice([.-].*)?$/i;
const README_SECTION = /^#+ *licen[cs]e *$([\s\S]*?)(?=^#|(?![\s\S]))/im;

/** Whether one of the alternatives in an SPDX expression is allowed. */
export function isAllowed(expression: string): boolean {
  const alternatives = expression.replace(/^\((.*)\)$/, "$1").split(" OR ");
  return alternatives.some((each) => ALLOWED.has(each));
}

/**
 * The licence text in a package's folder, with the notices that Apache-2.0 requires to be kept; null if it has none.
 */
export function licenceText(folder: string): string | null {
  const names = readdirSync(folder).toSorted();
  const read = (wanted: RegExp): string[] =>
    names.filter((name) => wanted.test(name)).map((name) => readFileSync(join(folder, name), "utf8").trim());
  const texts = read(LICENCE_FILE).filter((text) => text !== "");
  if (texts.length > 0) return [...texts, ...read(NOTICE_FILE)].join("\n\n");
  const readme = names.find((name) => /^readme(\.|$)/i.test(name));
  const section = readme ? (README_SECTION.exec(readFileSync(join(folder, readme), "utf8"))?.[1] ?? "") : "";
  // A section that only names the licence is no text.
  return /permission/i.test(section) && /warrant/i.test(section) ? section.trim() : null;
}
