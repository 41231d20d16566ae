// Sends the API call of a command: its flags as a request, and the response as the flags ask for it.
import { isList, moreText, nextPage, printResponse } from "../ui/format.ts";
import { ExitError, print, type OutputOptions } from "../ui/output.ts";
import type { CommandSpec, FlagSpec } from "./command-spec.ts";
import { parseList } from "./list-flag.ts";
import { isFailure, parseJson, request, type ApiRequest, type ApiResponse } from "./request.ts";
import { requireBearer, resolveTarget, type TargetOptions } from "./target.ts";

export type ApiOptions = TargetOptions &
  OutputOptions & { idempotencyKey?: string; unset?: string[] } & Record<string, unknown>;
export type Run = (spec: CommandSpec, args: string[], options: ApiOptions) => Promise<void>;

const camelCase = (flag: string): string => flag.replace(/-(\w)/g, (_all, letter: string) => letter.toUpperCase());

function parseFlag(flag: FlagSpec, given: unknown): unknown {
  if (flag.kind === "switch") return given === true ? "true" : undefined;
  if (flag.kind === "list") return parseList(flag.flag, given as string[]);
  const text = String(given);
  if (flag.kind === "text") return text;
  if (flag.kind === "json" || flag.kind === "boolean") {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new ExitError(`--${flag.flag} is not valid JSON.`, 2);
    }
  }
  const number = Number(text);
  const valid = text.trim() !== "" && Number.isFinite(number) && (flag.kind === "number" || Number.isInteger(number));
  if (!valid) throw new ExitError(`--${flag.flag} must be a ${flag.kind === "number" ? "" : "whole "}number.`, 2);
  return number;
}

export function buildRequest(spec: CommandSpec, args: string[], options: ApiOptions): ApiRequest {
  const [method = "GET", pattern = "/"] = spec.route.split(" ");
  let next = 0;
  const path = pattern.replace(/\{\w+\}/g, () => encodeURIComponent(args[next++] ?? ""));
  const query: Record<string, string | string[]> = {};
  const body: Record<string, unknown> = {};
  for (const flag of spec.flags) {
    const given = options[camelCase(flag.flag)];
    const unset = options.unset?.includes(flag.flag) === true;
    if (unset && given !== undefined)
      throw new ExitError(`--${flag.flag} and --unset ${flag.flag} cannot be used together.`, 2);
    const value = unset ? null : given === undefined ? undefined : parseFlag(flag, given);
    if (value === undefined) continue;
    if (flag.in === "body") body[flag.name] = value;
    else if (Array.isArray(value)) query[flag.name] = value as string[];
    else query[flag.name] = typeof value === "string" ? value : JSON.stringify(value);
  }
  const flags = spec.flags.map(({ name }) => name);
  return { method, path, query, ...(spec.hasBody && { body }), idempotencyKey: options.idempotencyKey, flags };
}

/** Sends a request. A refusal ends the command with 1; --json prints its body unchanged. */
export async function sendRequest(
  message: ApiRequest,
  options: ApiOptions,
  target = requireBearer(resolveTarget(options)),
): Promise<ApiResponse> {
  const response = await request(target, message);
  if (isFailure(response) && options.json) print(response.text.trimEnd());
  parseJson(response, (path) => nameAsFlag(path, message));
  return response;
}

/** `--expires-at` for the field expires_at that a flag sets. */
function nameAsFlag(path: string, { query, body, flags = [] }: ApiRequest): string {
  const field = /^\w+/.exec(path)?.[0] ?? "";
  const isFlag = flags.includes(field) || Object.hasOwn({ ...query, ...(body as object | undefined) }, field);
  return isFlag ? `--${field.replaceAll("_", "-")}${path.slice(field.length)}` : path;
}

/**
 * Passes the response of a request to `show`. Of a list, the first page that is not empty; with --quiet and without
 * --limit every page, because a script counts on all ids; with --json always the first one alone.
 */
export async function sendListRequest(
  message: ApiRequest,
  options: ApiOptions,
  show: (text: string) => void,
): Promise<void> {
  const target = requireBearer(resolveTarget(options));
  const isEvery = options.quiet && options.limit === undefined;
  for (let query = message.query ?? {}; ; ) {
    const { text } = await sendRequest({ ...message, query }, options, target);
    const body: unknown = options.json ? null : JSON.parse(text);
    const list = isList(body) ? body : null;
    const next = list && nextPage(list);
    if (!list || !next || (list.data.length > 0 && !isEvery)) {
      show(text);
      if (list && next && options.quiet) process.stderr.write(`${moreText(list)}\n`);
      return;
    }
    if (list.data.length > 0) show(text);
    query = { ...query, [next.name]: next.value };
  }
}

export const runApiCommand: Run = async (spec, args, options) => {
  const show = (text: string): void => printResponse(spec, text, options);
  await sendListRequest(buildRequest(spec, args, options), options, show);
};

/** For commands that check their required flags themselves. */
export function requireFlags(spec: CommandSpec, options: ApiOptions): void {
  const missing = spec.flags.filter(({ required, flag }) => required && options[camelCase(flag)] === undefined);
  if (missing.length > 0) throw new ExitError(`Missing: ${missing.map(({ flag }) => `--${flag}`).join(", ")}.`, 2);
}
