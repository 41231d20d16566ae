// Canonical JSON (RFC 8785, JCS): equal values have equal text, so that they can be hashed. No whitespace; keys sorted
// by UTF-16 code units, not by code points or locale; numbers and escapes as ECMAScript writes them. JSON.stringify is
// not enough: it escapes lone surrogates and writes NaN as null; here both throw.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export function canonicalize(value: Json): string {
  if (typeof value === "string") return canonicalString(value);
  if (typeof value === "number") return canonicalNumber(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value !== "object") throw new TypeError(`JSON has no ${typeof value}.`);
  if (Array.isArray(value)) return `[${value.map(canonicalize).join(",")}]`;
  const members = Object.keys(value)
    .toSorted()
    .map((key) => `${canonicalString(key)}:${canonicalize(value[key] as Json)}`);
  return `{${members.join(",")}}`;
}

function canonicalString(text: string): string {
  if (!text.isWellFormed()) throw new TypeError("Canonical JSON has no lone surrogates.");
  return JSON.stringify(text);
}

function canonicalNumber(value: number): string {
  if (!Number.isFinite(value)) throw new TypeError("Canonical JSON has finite numbers only.");
  return JSON.stringify(value);
}
