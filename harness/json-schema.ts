// JSON Schema as our OpenAPI document uses it: validates values, and generates them. An unknown keyword is an error, so
// that nothing is silently left unchecked.
import type { Random } from "./random.ts";

export type Schema = { [keyword: string]: unknown };
type Check = (argument: never, value: unknown, schema: Schema, root: Schema) => string | null;

const TYPES: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: (value) => Array.isArray(value),
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

const FORMATS: Record<string, RegExp> = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
  email: /^[^@\s]+@[^@\s]+$/,
};

const isObject = (value: unknown): value is Record<string, unknown> => TYPES.object?.(value) === true;
const length = (value: unknown): number => (typeof value === "string" ? [...value].length : -1);
const ignore: Check = () => null;

const CHECKS: Record<string, Check> = {
  $ref: (ref: string, value, _schema, root) => problem(resolve(ref, root), value, root),
  type: (type: string | string[], value) =>
    [type].flat().some((each) => TYPES[each]?.(value)) ? null : `is not of type ${String(type)}`,
  const: (want: unknown, value) => (value === want ? null : `is not ${JSON.stringify(want)}`),
  enum: (list: unknown[], value) => (list.includes(value) ? null : `is none of ${JSON.stringify(list)}`),
  anyOf: (list: Schema[], value, _schema, root) =>
    list.some((each) => problem(each, value, root) === null) ? null : "meets no alternative",
  minimum: (min: number, value) => (typeof value !== "number" || value >= min ? null : `is below ${min}`),
  maximum: (max: number, value) => (typeof value !== "number" || value <= max ? null : `is above ${max}`),
  minLength: (min: number, value) => (length(value) === -1 || length(value) >= min ? null : "is too short"),
  maxLength: (max: number, value) => (length(value) <= max ? null : "is too long"),
  pattern: (text: string, value) =>
    typeof value !== "string" || new RegExp(text, "u").test(value) ? null : `does not match ${text}`,
  format: (name: string, value) => (typeof value !== "string" || FORMATS[name]?.test(value) ? null : `is no ${name}`),
  minItems: (min: number, value) => (!Array.isArray(value) || value.length >= min ? null : "has too few items"),
  maxItems: (max: number, value) => (!Array.isArray(value) || value.length <= max ? null : "has too many items"),
  uniqueItems: (unique: boolean, value) => {
    if (!unique || !Array.isArray(value)) return null;
    return new Set(value.map((item) => JSON.stringify(item))).size === value.length ? null : "repeats an item";
  },
  items: (each: Schema, value, _schema, root) =>
    Array.isArray(value) ? first(value.entries(), (item) => problem(each, item, root)) : null,
  properties: (shapes: Record<string, Schema>, value, _schema, root) =>
    isObject(value)
      ? first(Object.entries(value), (field, name) =>
          shapes[name] === undefined ? null : problem(shapes[name], field, root),
        )
      : null,
  required: (names: string[], value) => {
    const missing = isObject(value) ? names.find((name) => !Object.hasOwn(value, name)) : undefined;
    return missing === undefined ? null : `lacks ${missing}`;
  },
  additionalProperties: (more: boolean | Schema, value, schema, root) => {
    if (!isObject(value)) return null;
    const extra = Object.entries(value).filter(([name]) => !Object.hasOwn(schema.properties ?? {}, name));
    if (more === false) return extra.length === 0 ? null : `has a field too many: ${extra[0]?.[0]}`;
    return typeof more === "object" ? first(extra, (field) => problem(more, field, root)) : null;
  },
  propertyNames: (shape: Schema, value, _schema, root) =>
    isObject(value) ? first(Object.keys(value).entries(), (name) => problem(shape, name, root)) : null,
  description: ignore,
  default: ignore,
  contentEncoding: ignore,
};

function first<K extends string | number>(
  entries: Iterable<[K, unknown]>,
  check: (value: unknown, name: K) => string | null,
): string | null {
  for (const [name, value] of entries) {
    const found = check(value, name);
    if (found !== null) return `${name}: ${found}`;
  }
  return null;
}

function resolve(ref: string, root: Schema): Schema {
  const names = ref.split("/").slice(1);
  const found = names.reduce<unknown>((at, name) => (at as Schema | undefined)?.[name], root);
  if (!isObject(found)) throw new Error(`${ref} points nowhere`);
  return found;
}

/** Keywords in a schema and those inside it that nothing here checks. */
export function unknownKeywords(schema: Schema): string[] {
  const { properties = {}, anyOf = [], items, additionalProperties, propertyNames } = schema;
  const inner = [
    ...Object.values(properties as object),
    ...(anyOf as unknown[]),
    items,
    additionalProperties,
    propertyNames,
  ];
  const own = Object.keys(schema).filter((keyword) => !(keyword in CHECKS));
  return [...own, ...inner.filter(isObject).flatMap(unknownKeywords)];
}

/** The first violation, or null. `root` is the document that references point into. */
export function problem(schema: Schema, value: unknown, root: Schema): string | null {
  for (const [keyword, argument] of Object.entries(schema)) {
    const check = CHECKS[keyword];
    if (!check) throw new Error(`the keyword ${keyword} is not known here`);
    const found = check(argument as never, value, schema, root);
    if (found !== null) return found;
  }
  return null;
}

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

export type Known = { ids: readonly string[]; emails: readonly string[] };

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
  if (isObject(value) && Object.keys(value).length > 0 && random.int(0, 3) > 0) {
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
