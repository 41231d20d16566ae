// How answers look to a person: aligned tables for lists, a sentence and aligned fields for one record.
import { dim, out, safe, table } from "./output.ts";
import type { OutputOptions } from "../api/target.ts";
import type { Verb } from "../api/command-spec.ts";

type Fields = Record<string, unknown>;
type List = { object: "list"; data: Fields[]; has_more?: true };

const DONE: Record<string, string> = {
  create: "Created",
  update: "Changed",
  rotate: "Rotated",
  revoke: "Revoked",
  delete: "Deleted",
  accept: "Accepted",
  switch: "Switched",
  "revoke-embed-tokens": "Revoked the embed tokens of",
};

function isList(body: unknown): body is List {
  return (body as { object?: unknown } | null)?.object === "list" && Array.isArray((body as List).data);
}

/** `a.b` goes deeper. */
export function pick(body: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (value as Fields | null | undefined)?.[name], body);
}

export function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (typeof value === "string") return safe(value);
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return safe(value.join(" ")) || "-";
  return safe(JSON.stringify(value));
}

export function listTable(rows: readonly Fields[], columns: readonly string[]): string {
  const present = columns.filter((name) => rows.length === 0 || rows.some((row) => name in row));
  const head = present.map((name) => name.replaceAll("_", " ").toUpperCase());
  const [first = "", ...lines] = table([head, ...rows.map((row) => present.map((name) => cell(row[name])))]).split(
    "\n",
  );
  return [dim(first), ...lines].join("\n");
}

export function recordTable(record: Fields, skip: readonly string[] = []): string {
  const entries = Object.entries(record).filter(
    ([name, value]) => name !== "object" && value !== null && !name.endsWith("_shown_once") && !skip.includes(name),
  );
  return table(entries.map(([name, value]) => [`  ${name.replaceAll("_", " ")}`, cell(value)]));
}

function quietText(verb: Verb, body: unknown): string {
  const path = verb.quiet ?? "id";
  if (isList(body)) return body.data.map((row) => cell(pick(row, path))).join("\n");
  return cell(pick(body, path) ?? pick(body, "id"));
}

function listText(verb: Verb, body: List): string {
  if (body.data.length === 0) return "Nothing there.";
  const columns = verb.columns ?? Object.keys(body.data[0] ?? {}).filter((name) => name !== "object");
  const last = body.data.at(-1);
  const next = verb.flags.some(({ name }) => name === "after_seq")
    ? `--after-seq ${cell(last?.seq)}`
    : `--after ${cell(last?.id)}`;
  return listTable(body.data, columns) + (body.has_more ? `\n${dim(`There are more: add ${next}`)}` : "");
}

/** A record of records (`workspace create`) is shown one under the other. */
function recordText(noun: string, name: string, verb: Verb, body: Fields): string {
  const groups = Object.entries(body).filter(([key, value]) => isRecord(value) && key !== "meta");
  const nested = !("id" in body) && groups.length > 0;
  const text = nested
    ? groups.map(([key, value]) => `${key.replaceAll("_", " ")}\n${recordTable(value as Fields)}`).join("\n")
    : recordTable(body);
  const id = pick(body, "id") ?? pick(body, `${noun.replaceAll("-", "_")}.id`) ?? pick(body, verb.quiet ?? "");
  const done = DONE[name] && typeof id === "string" && id !== pick(body, verb.secret ?? "") ? ` ${safe(id)}` : "";
  const sentence = DONE[name] ? `${DONE[name]} ${noun.replaceAll("-", " ")}${done}.\n` : "";
  const once = verb.secret ? "\nKeep it now: it is shown only this once." : "";
  return sentence + text + once;
}

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Prints a good answer as the flags ask: unchanged, the id alone, or for people. */
export function present(noun: string, name: string, verb: Verb, text: string, options: OutputOptions): void {
  if (options.json) return out(text.trimEnd());
  const body: unknown = JSON.parse(text);
  if (options.quiet) {
    const ids = quietText(verb, body);
    return ids === "" ? undefined : out(ids);
  }
  if (isList(body)) return out(listText(verb, body));
  out(isRecord(body) ? recordText(noun, name, verb, body) : cell(body));
}
