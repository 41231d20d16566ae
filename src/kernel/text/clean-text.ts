// Text that every database stores alike. PostgreSQL has no NUL in texts, and a lone surrogate becomes U+FFFD in UTF-8,
// where two different ones would then be equal.
import { failField } from "../errors.ts";

export const UNCLEAN = "must not hold a NUL or a lone surrogate";

export function isCleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

/** Escapes of a NUL and of surrogates. */
const SUSPECT = /\\u(?:0000|[dD][89a-fA-F])/;

/**
 * Checks every text and name of a value that was parsed from `json`. JSON and UTF-8 allow a NUL and a lone surrogate
 * only as escapes, so text without such an escape needs no further check. bench: ingest/batch
 */
export function requireCleanTexts(json: string, value: unknown): void {
  if (json.includes("\\u") && SUSPECT.test(json)) requireCleanValue(value);
}

export function requireCleanValue(value: unknown): void {
  const path = findUnclean(value);
  if (path !== undefined) throw failField("invalid_body", path.replace(/^\./, ""), UNCLEAN);
}

export function isCleanValue(value: unknown): boolean {
  return findUnclean(value) === undefined;
}

/** The path of the first unclean text, or of the object with an unclean name. The depth of bodies is bounded. */
function findUnclean(value: unknown): string | undefined {
  if (typeof value === "string") return isCleanText(value) ? undefined : "";
  if (typeof value !== "object" || value === null) return undefined;
  const isList = Array.isArray(value);
  for (const name in value) {
    if (!isCleanText(name)) return "";
    const path = findUnclean((value as Record<string, unknown>)[name]);
    if (path !== undefined) return (isList ? `[${name}]` : `.${name}`) + path;
  }
  return undefined;
}
