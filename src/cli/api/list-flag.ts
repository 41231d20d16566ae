// The value of a repeatable flag: one text for each time it is given, or a JSON list. Scopes are free text, which the
// server stores as it is, so `a,b` in place of two scopes is refused here. The members of other lists have a form that
// the server checks.
import { ExitError } from "../ui/output.ts";

/** Flags whose members may be any text. */
const FREE_TEXT: ReadonlySet<string> = new Set(["scopes"]);

export function parseList(flag: string, given: readonly string[]): string[] {
  if (given.length === 1 && given[0] === "") return [];
  return given.flatMap((value) => (value.startsWith("[") ? parseJsonList(flag, value) : [requireOne(flag, value)]));
}

function parseJsonList(flag: string, text: string): string[] {
  const values = parsed(text);
  if (!Array.isArray(values) || !values.every((value) => typeof value === "string"))
    throw new ExitError(`--${flag} begins with "[" and is not a JSON list of texts.`, 2);
  return values;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

function requireOne(flag: string, value: string): string {
  if (!FREE_TEXT.has(flag) || !/[,\s]/.test(value)) return value;
  const single = `If it is one, write --${flag} '${JSON.stringify([value])}'.`;
  throw new ExitError(`--${flag} is repeated for each value: --${flag} a --${flag} b. ${single}`, 2);
}
