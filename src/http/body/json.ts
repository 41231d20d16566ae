// Parses JSON strictly: no NUL, no lone surrogate, no number that loses precision, and objects without a prototype. The
// depth was checked while the body arrived (structure.ts), so recursion over the value is bounded.
import { requireCleanTexts } from "../../kernel/text/clean-text.ts";
import { fail, failField } from "../../kernel/errors.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a body; `{}` for an empty one, so that the schema names what is missing. */
export function textOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "{}";
  try {
    return decoder.decode(bytes);
  } catch {
    throw fail("invalid_body");
  }
}

/** Unchecked: the value may be used only after `soundJson`, or a fast path that bounds every field. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail("invalid_body");
  }
}

/** Applies the strict rules to the value that `text` was parsed to. */
export function soundJson(text: string, value: unknown): unknown {
  requireCleanTexts(text, value);
  // A prototype can only be set through the name `__proto__`, which only an escape can disguise.
  const suspect = text.includes("\\u") || text.includes("__proto__");
  return !suspect && isSound(value) ? value : copyExact(value, "");
}

function isSound(value: unknown): boolean {
  if (typeof value === "number") return isExact(value);
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) {
    for (const item of value) if (!isSound(item)) return false;
    return true;
  }
  for (const name in value) if (!isSound((value as Record<string, unknown>)[name])) return false;
  return true;
}

function isExact(value: number): boolean {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

function copyExact(value: unknown, path: string): unknown {
  if (typeof value === "number") {
    if (!isExact(value)) throw failField("invalid_body", path, "must be a number that fits in 53 bits");
    return value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item, i) => copyExact(item, `${path}[${i}]`));
  const copy: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [name, item] of Object.entries(value))
    copy[name] = copyExact(item, path === "" ? name : `${path}.${name}`);
  return copy;
}
