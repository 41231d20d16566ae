// Random values for a JSON Schema, as our OpenAPI document uses it, and corrupted ones.
import { isPlainObject } from "../src/kernel/objects.ts";
import type { Random } from "./random.ts";

export type Schema = { [keyword: string]: unknown };

/** Text that has broken parsers, databases and headers before. */
export const NASTY: readonly string[] = [
  "",
  " ",
  "\u0000",
  "a\r\nset-cookie: x=1",
  "'; drop table api_keys; --",
  "\ud800",
  "𝕏".repeat(50),
  "%00%0d%0a",
  "../../../etc/passwd",
  "__proto__",
  "constructor",
  "{{7*7}}",
  "\u202e\ufeff",
  "x".repeat(5_000),
  "null",
  "-0",
  "1e999",
  "NaN",
];

const PATTERNS: Record<string, (random: Random) => string> = {
  "^[a-z0-9][a-z0-9._-]{0,63}$": (random) => `rule-${random.int(0, 99)}`,
  "^\\d{4}-\\d\\d-\\d\\d$": (random) => `2026-${random.pick(["01", "11", "13"])}-${random.pick(["01", "15", "31"])}`,
  "^[0-9a-f]{64}$": (random) => Array.from({ length: 64 }, () => random.int(0, 15).toString(16)).join(""),
  "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$": (random) => `x-${random.int(0, 99)}`,
  "^[^\\r\\n]*$": (random) => `value ${random.int(0, 99)}`,
  "^[A-Za-z0-9._:-]{1,128}$": (random) => `node-${random.int(0, 9)}`,
  "^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$": (random) => `slug-${random.int(0, 1e9)}`,
  "^https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?$": (random) => `https://a${random.int(0, 9)}.example.com`,
};

function resolve(ref: string, root: Schema): Schema {
  const names = ref.split("/").slice(1);
  return names.reduce<unknown>((at, name) => (at as Schema)[name], root) as Schema;
}

type Known = { ids: readonly string[]; emails: readonly string[] };

/** A random value that the schema allows; ids are taken from those known to exist. */
export function valueFor(schema: Schema, random: Random, known: Known, root: Schema): unknown {
  const { $ref, anyOf, const: constant, enum: choices, type, format, pattern } = schema as Record<string, never>;
  if ($ref !== undefined) return valueFor(resolve($ref, root), random, known, root);
  if (anyOf !== undefined) return valueFor(random.pick(anyOf as Schema[]), random, known, root);
  if ("const" in schema) return constant;
  if (choices !== undefined) return random.pick(choices as unknown[]);
  if (format === "uuid") return random.pick(known.ids);
  if (format === "email") return random.pick(known.emails);
  if (format === "date-time") return new Date(Date.now() + random.int(-1e9, 1e10)).toISOString();
  if (pattern !== undefined) return PATTERNS[pattern]?.(random) ?? "x";
  const one = Array.isArray(type) ? random.pick(type as string[]) : (type as string | undefined);
  return plainValue(one, schema, random, known, root);
}

function plainValue(type: string | undefined, schema: Schema, random: Random, known: Known, root: Schema): unknown {
  const {
    minimum = 0,
    maximum = 1_000,
    minLength = 0,
    maxLength = 40,
    minItems = 0,
    maxItems = 3,
  } = schema as Record<string, number>;
  const fields = (schema.properties ?? {}) as Record<string, Schema>;
  const required = (schema.required ?? []) as string[];
  if (type === "integer" || type === "number") {
    const edge = random.pick([minimum, maximum, random.int(minimum, Math.min(maximum, minimum + 100))]);
    return type === "number" && random.int(0, 4) === 0 ? edge + 0.5 : edge;
  }
  if (type === "boolean") return random.int(0, 1) === 1;
  if (type === "null") return null;
  if (type === "string") return "t".repeat(random.pick([minLength, Math.max(minLength, 8), Math.min(maxLength, 300)]));
  if (type === "array") {
    const count = random.int(minItems, Math.max(minItems, Math.min(maxItems, 3)));
    return Array.from({ length: count }, () => valueFor((schema.items ?? {}) as Schema, random, known, root));
  }
  if (type !== "object") return random.pick([null, 1, "x", true, [], {}]);
  const chosen = Object.entries(fields).filter(([name]) => required.includes(name) || random.int(0, 1) === 0);
  return Object.fromEntries(chosen.map(([name, each]) => [name, valueFor(each, random, known, root)]));
}

/** Replaces a value, or a part of it, by something else. */
export function corrupted(value: unknown, random: Random): unknown {
  if (Array.isArray(value) && value.length > 0 && random.int(0, 2) > 0) {
    const at = random.int(0, value.length - 1);
    return value.map((item, i) => (i === at ? corrupted(item, random) : item));
  }
  if (isPlainObject(value) && Object.keys(value).length > 0 && random.int(0, 3) > 0) {
    const name = random.pick(Object.keys(value));
    if (random.int(0, 5) === 0) return Object.fromEntries(Object.entries(value).filter(([each]) => each !== name));
    if (random.int(0, 5) === 0) return { ...value, [random.pick(NASTY)]: value[name] };
    return { ...value, [name]: corrupted(value[name], random) };
  }
  const nested = (depth: number): unknown =>
    depth === 0 ? 1 : random.int(0, 1) ? [nested(depth - 1)] : { a: nested(depth - 1) };
  return random.pick<() => unknown>([
    () => random.pick(NASTY),
    () => random.pick([0, -1, 1.5, 2 ** 53, -(2 ** 53), 1e308, 2 ** 31, 2 ** 63]),
    () => random.pick([null, true, false, [], {}, [[]], [null]]),
    () => nested(random.int(1, 40)),
    () => Array.from({ length: random.pick([10, 100, 1_001]) }, () => value),
  ])();
}
