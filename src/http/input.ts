// Validates path, query and body against an endpoint's schemas, and names every invalid field by its path.
import { BoundedMap } from "../kernel/bounded-map.ts";
import type { z } from "zod";
import { isCleanText, UNCLEAN } from "../kernel/text/clean-text.ts";
import { alternatives } from "../kernel/text/alternatives.ts";
import { fail, type Detail, type FailureName } from "../kernel/errors.ts";
import { parseJson, soundJson, textOf } from "./body/json.ts";
import type { Endpoint, Schema } from "./endpoint.ts";
import type { HttpRequest } from "./request.ts";
import { tryFastPath } from "./fast/fast-path.ts";

const DETAILS_MAX = 20;

function validate<S extends Schema>(schema: S, value: unknown, failure: FailureName): z.output<S> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw fail(failure, { details: detailsOf(result.error, value) });
}

export function paramsOf(schema: Schema, params: HttpRequest["params"]): unknown {
  return validate(schema, params, "invalid_path");
}

export function bodyOf({ body }: Endpoint, bytes: Uint8Array): unknown {
  if (!body) return undefined;
  const text = textOf(bytes);
  const value = parseJson(text);
  return tryFastPath(body, value) ?? validate(body, soundJson(text, value), "invalid_body");
}

function detailsOf(error: z.ZodError, value: unknown): Detail[] {
  const details: Detail[] = [];
  for (const issue of error.issues) {
    if (issue.code === "unrecognized_keys") {
      const left = DETAILS_MAX - details.length;
      for (const key of issue.keys.slice(0, left)) details.push(detail([...issue.path, key], "is not a known field"));
    } else details.push(detail(issue.path, isAbsent(value, issue.path) ? "is required" : messageOf(issue)));
    if (details.length >= DETAILS_MAX) break;
  }
  return details;
}

function detail(path: PropertyKey[], message: string): Detail {
  let text = "";
  for (const part of path)
    text += typeof part === "number" ? `[${part}]` : text === "" ? String(part) : `.${String(part)}`;
  return { path: text, message };
}

function isAbsent(value: unknown, path: PropertyKey[]): boolean {
  let at = value as Record<PropertyKey, unknown> | undefined;
  for (const part of path) at = at?.[part] as typeof at;
  return path.length > 0 && at === undefined;
}

/** Replaces zod's messages by our own, which never contain the value that was sent. */
function messageOf(issue: z.core.$ZodIssue): string {
  const nested = issue.code === "invalid_key" ? issue.issues[0]?.message : undefined;
  return (nested ?? issue.message)
    .replace(/, received .*$/, "")
    .replace(/^Invalid input: expected (\w+)$/, (_all, type: string) => `must be ${TYPES[type] ?? `of type ${type}`}`)
    .replace(/^Invalid (?:option|input): expected (?:one of )?(".*")$/, (_all, values: string) => {
      return `must be ${alternatives(values.slice(1, -1).split('"|"'))}`;
    })
    .replace(/^Too (?:big|small): expected \w+ to (have|be) ([<>]=?)/, (_all, verb: string, sign: string) => {
      return `must ${verb} ${BOUNDS[sign] ?? sign} `;
    });
}

const TYPES: Record<string, string> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
  object: "an object",
  record: "an object",
  string: "a string",
};
const BOUNDS: Record<string, string> = { ">=": "at least", "<=": "at most", ">": "more than", "<": "less than" };

const MEMO_MAX = 1_000;
const MEMO_CHARS_MAX = 512;
const memo = new WeakMap<Endpoint, Map<string, unknown>>();

/** The validated query. Memoized on hot endpoints, whose callers repeat theirs. bench: feed/unchanged-poll */
export function queryOf(endpoint: Endpoint, search: string): unknown {
  if (search === "" && !endpoint.query) return undefined;
  const known = endpoint.hot ? memo.get(endpoint) : undefined;
  const found = known?.get(search);
  if (found !== undefined) return found;
  const raw = parseQuery(search, endpoint.query, endpoint.looseQuery);
  const query = endpoint.query && validate(endpoint.query, raw, "invalid_query");
  if (!endpoint.hot || query === undefined || search.length > MEMO_CHARS_MAX) return query;
  const map = known ?? new BoundedMap<string, unknown>({ max: MEMO_MAX });
  if (!known) memo.set(endpoint, map);
  map.set(search, Object.freeze(query));
  return query;
}

type Shape = Record<string, z.ZodType>;

/** The schema inside optional, default and nullable. */
function inner(schema: z.ZodType): z.ZodType {
  const def = schema.def as { type: string; innerType?: z.ZodType };
  return def.innerType && ["optional", "default", "nullable", "prefault"].includes(def.type)
    ? inner(def.innerType)
    : schema;
}

/** Parses a query into the types its schema expects: numbers and lists where it has them, otherwise text. */
function parseQuery(search: string, schema: z.ZodObject | undefined, loose: boolean): unknown {
  const shape: Shape = schema?.shape ?? {};
  const result: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  const problems: Detail[] = [];
  // URLSearchParams drops a leading "?", which here would belong to a name.
  for (const [name, value] of new URLSearchParams(`?${search}`)) {
    if (problems.length >= DETAILS_MAX) break;
    const field = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (!field) {
      if (!loose) problems.push(detail([name], "is not a known parameter"));
    } else if (!isCleanText(value)) problems.push(detail([name], UNCLEAN));
    else if (inner(field).def.type === "array") ((result[name] ??= []) as unknown[]).push(value);
    else if (name in result) problems.push(detail([name], "must be sent once"));
    else if (inner(field).def.type !== "number") result[name] = value;
    else if (/^-?\d{1,16}$/.test(value)) result[name] = Number(value);
    else problems.push(detail([name], "must be a whole number"));
  }
  if (problems.length > 0) throw fail("invalid_query", { details: problems });
  return result;
}
