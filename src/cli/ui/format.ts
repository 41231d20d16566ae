// Formats API responses for people: tables for lists, a sentence and aligned fields for one record.
import { isPlainObject } from "../../kernel/objects.ts";
import type { CommandSpec } from "../api/command-spec.ts";
import { dim, escapeControls, plural, print, table, type OutputOptions } from "./output.ts";

/** A record of a response. */
export type Fields = Record<string, unknown>;
type Report = Fields & { data: Fields[] };
export type List = { object: "list"; data: Fields[]; has_more?: boolean; next_cursor?: string | null };

const PAST_TENSE: Record<string, string> = {
  create: "Created",
  void: "Voided",
  update: "Updated",
  rotate: "Rotated",
  revoke: "Revoked",
  delete: "Deleted",
  switch: "Switched",
  "revoke-embed-tokens": "Revoked the embed tokens of",
};

export function isList(body: unknown): body is List {
  return (body as { object?: unknown } | null)?.object === "list" && Array.isArray((body as List).data);
}

function isReport(body: unknown): body is Report {
  const data = (body as { data?: unknown } | null)?.data;
  return Array.isArray(data) && data.every(isPlainObject);
}

/** A field by its path: `a.b` goes deeper. */
function pick(body: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (value as Fields | null | undefined)?.[name], body);
}

export function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (typeof value === "string") return escapeControls(value);
  if (Array.isArray(value) && value.every((item) => typeof item === "string"))
    return escapeControls(value.join(" ")) || "-";
  return escapeControls(JSON.stringify(value));
}

const NO_RESULTS = "No results.";

/** Columns that are not plain fields of the record. */
const DERIVED: Record<string, (row: Fields) => string | undefined> = {
  sdk: ({ sdk }) => (isPlainObject(sdk) ? `${cell(sdk.name)} ${cell(sdk.version)}` : undefined),
  allowed_cidrs: ({ allowed_cidrs: list }) => (Array.isArray(list) && list.length === 0 ? "any address" : undefined),
  power: ({ permissions, project_ids }) => {
    if (!Array.isArray(permissions)) return "full";
    const projects = Array.isArray(project_ids) ? ` (${plural(project_ids.length, "project")})` : "";
    return cell(permissions) + projects;
  },
};

const cellOf = (row: Fields, name: string): string => DERIVED[name]?.(row) ?? cell(row[name]);

export function listTable(rows: readonly Fields[], columns: readonly string[]): string {
  const isPresent = (name: string): boolean => rows.some((row) => name in row || DERIVED[name]?.(row) !== undefined);
  const present = columns.filter((name) => rows.length === 0 || isPresent(name));
  const head = present.map((name) => name.replaceAll("_", " ").toUpperCase());
  const [first = "", ...lines] = table([head, ...rows.map((row) => present.map((name) => cellOf(row, name)))]).split(
    "\n",
  );
  return [dim(first), ...lines].join("\n");
}

export function recordTable(record: Fields): string {
  const entries = Object.entries(record).filter(
    ([name, value]) => name !== "object" && value !== null && !name.endsWith("_shown_once"),
  );
  return table(entries.map(([name]) => [`  ${name.replaceAll("_", " ")}`, cellOf(record, name)]));
}

function quietText(spec: CommandSpec, body: unknown): string {
  const path = spec.quiet ?? "id";
  if (isList(body)) return body.data.map((row) => cell(pick(row, path))).join("\n");
  return cell(pick(body, path) ?? pick(body, "id"));
}

/** A record with rows, such as `key ip-report`: its fields, then a table. */
function reportText(spec: CommandSpec, { data, ...record }: Report): string {
  const rows = data.length === 0 ? NO_RESULTS : listTable(data, spec.columns ?? Object.keys(data[0] ?? {}));
  return `${recordTable(record)}\n${rows}`;
}

/** The query parameter that continues a list, or null at its end. A page may be empty before that. */
export function nextPage({ data, has_more, next_cursor }: List): { name: string; value: string } | null {
  if (next_cursor) return { name: "cursor", value: next_cursor };
  const { seq, user_id, id = user_id } = data.at(-1) ?? {}; // members have a user's id
  if (!has_more || id === undefined) return null;
  return seq === undefined ? { name: "after", value: cell(id) } : { name: "after_seq", value: cell(seq) };
}

/** Says how to continue a list, or nothing at its end. */
export function moreText(list: List): string {
  const next = nextPage(list);
  return next ? `More results: add --${next.name.replaceAll("_", "-")} ${escapeControls(next.value)}` : "";
}

export function listText(list: List, columns?: readonly string[]): string {
  const { data } = list;
  const text = moreText(list);
  const more = text === "" ? [] : [dim(text)];
  if (data.length === 0) return more[0] ?? NO_RESULTS;
  const shown = columns ?? Object.keys(data[0] ?? {}).filter((name) => name !== "object");
  return [listTable(data, shown), ...more].join("\n");
}

/** One record, or a record of records (`workspace create`), one below the other. */
function recordText(spec: CommandSpec, body: Fields): string {
  const { noun, verb } = spec;
  const groups = Object.entries(body).filter(([key, value]) => isPlainObject(value) && key !== "meta");
  const nested = !("id" in body) && groups.length > 0;
  const text = nested
    ? groups.map(([key, value]) => `${key.replaceAll("_", " ")}\n${recordTable(value as Fields)}`).join("\n")
    : recordTable(body);
  const id = pick(body, "id") ?? pick(body, `${noun.replaceAll("-", "_")}.id`) ?? pick(body, spec.quiet ?? "");
  const named = typeof id === "string" && id !== pick(body, spec.secret ?? "") ? ` ${escapeControls(id)}` : "";
  const done = PAST_TENSE[verb];
  const what = verb === "void" ? "grant" : noun.replaceAll("-", " "); // of a quota
  const joined = verb === "accept" ? `Joined workspace${named} as ${cell(body.role)}.\n` : "";
  return (done ? `${done} ${what}${named}.\n` : joined) + text + saveNotice(spec);
}

function saveNotice({ secret }: CommandSpec): string {
  if (!secret) return "";
  return `\nSave this ${secret.endsWith("key") ? "key" : "token"} now. It will not be shown again.`;
}

/** Prints a successful response: unchanged (--json), the id alone (--quiet), or for people. */
export function printResponse(spec: CommandSpec, text: string, options: OutputOptions): void {
  if (options.json) return print(text.trimEnd());
  const body: unknown = JSON.parse(text);
  if (options.quiet) {
    const ids = quietText(spec, body);
    return ids === "" ? undefined : print(ids);
  }
  if (isList(body)) return print(listText(body, spec.columns));
  if (isReport(body)) return print(reportText(spec, body));
  print(isPlainObject(body) ? recordText(spec, body) : cell(body));
}
