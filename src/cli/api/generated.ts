// Builds the commands that are one API call each from commands.gen.json. A noun's own file may extend some of them.
import { Option, type Command } from "commander";
import { readText } from "../../platform/packaged-files.ts";
import { isList, moreText, nextPage, printResponse } from "../ui/format.ts";
import {
  collectValues,
  ExitError,
  examples,
  outputFlags,
  print,
  type Examples,
  type OutputOptions,
} from "../ui/output.ts";
import type { CommandSpec, CommandSpecs, FlagSpec } from "./command-spec.ts";
import { parseList } from "./list-flag.ts";
import { isFailure, parseJson, request, type ApiRequest, type ApiResponse } from "./request.ts";
import { requireBearer, resolveTarget, targetFlags, type TargetOptions } from "./target.ts";

export type ApiOptions = TargetOptions &
  OutputOptions & { idempotencyKey?: string; unset?: string[] } & Record<string, unknown>;
export type Run = (spec: CommandSpec, args: string[], options: ApiOptions) => Promise<void>;
export type Extension = {
  /** Adds flags. */
  flags?: (command: Command) => Command;
  /** Replaces the plain API call. */
  run?: Run;
  /** `run` checks the required flags itself, because another flag may replace them. */
  checksRequired?: true;
  examples?: Examples;
};

let specs: CommandSpecs | undefined;

function loadSpecs(): CommandSpecs {
  if (specs) return specs;
  specs = JSON.parse(readText("src/cli/api/commands.gen.json")) as CommandSpecs;
  for (const [noun, verbs] of Object.entries(specs))
    for (const [verb, spec] of Object.entries(verbs)) Object.assign(spec, { noun, verb });
  return specs;
}

export function commandSpec(noun: string, verb: string): CommandSpec {
  const spec = loadSpecs()[noun]?.[verb];
  if (!spec) throw new Error(`commands.gen.json has no command "${noun} ${verb}"`);
  return spec;
}

function optionFor(flag: FlagSpec, checkRequired: boolean): Option {
  const description = flag.description ?? flag.name.replaceAll("_", " ");
  const text = flag.required ? `${description}; required` : description;
  if (flag.kind === "switch") return new Option(`--${flag.flag}`, text);
  const value = flag.kind === "text" || flag.kind === "list" ? "value" : flag.kind;
  const option = new Option(`--${flag.flag} <${value}>`, text);
  if (flag.choices) option.choices(flag.choices);
  if (flag.kind === "list") option.argParser(collectValues);
  return flag.required && checkRequired ? option.makeOptionMandatory() : option;
}

export function addFlags(command: Command, { flags }: CommandSpec, checkRequired = true): void {
  for (const flag of flags) command.addOption(optionFor(flag, checkRequired));
}

/** `--unset <field>` for the fields that a PATCH may set to null. */
function addUnset(command: Command, { route, flags }: CommandSpec): void {
  if (!route.startsWith("PATCH ")) return;
  const nullable = flags.filter((flag) => flag.nullable).map(({ flag }) => flag);
  if (nullable.length === 0) return;
  const unset = new Option("--unset <field>", "clear a field; repeatable");
  unset.argParser((value: string, all: string[] | undefined) => {
    const name = value.replaceAll("_", "-"); // the API's field, or the flag
    if (!nullable.includes(name)) throw new ExitError(`--unset must be one of: ${nullable.join(", ")}.`, 2);
    return collectValues(name, all);
  });
  command.addOption(unset);
}

function addApiCommand(parent: Command, spec: CommandSpec, extension: Extension): void {
  const command = parent.command(spec.verb).description(spec.summary);
  for (const arg of spec.args) command.argument(`<${arg}>`);
  addFlags(command, spec, extension.checksRequired !== true);
  addUnset(command, spec);
  if (spec.idempotent)
    command.option("--idempotency-key <key>", "makes retries safe: the same key returns the same response");
  extension.flags?.(command);
  outputFlags(command, quietText(spec));
  targetFlags(command);
  command.addHelpText("after", examples(extension.examples ?? spec.examples));
  const run: Run = extension.run ?? runApiCommand;
  command.action(async (...given: unknown[]) => {
    const args = given.slice(0, spec.args.length) as string[];
    await run(spec, args, given[spec.args.length] as ApiOptions);
  });
}

/** The last part of the field's path names it: `total.total.requests`. */
function quietText({ quiet, quietHelp, secret }: CommandSpec): string | undefined {
  if (quietHelp !== undefined || quiet === undefined) return quietHelp;
  if (secret) return `print only the ${secret.endsWith("key") ? "key" : "token"}`;
  const field = quiet.slice(quiet.lastIndexOf(".") + 1);
  return field.endsWith("id") ? undefined : `print only the field ${field}`;
}

/** Adds a noun with all its generated commands; `extensions` by verb. */
export function addApiCommands(program: Command, noun: string, extensions: Record<string, Extension> = {}): Command {
  const parent = program.command(noun);
  for (const [verb, spec] of Object.entries(loadSpecs()[noun] ?? {}))
    addApiCommand(parent, spec, extensions[verb] ?? {});
  return parent;
}

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
  return { method, path, query, ...(spec.hasBody && { body }), idempotencyKey: options.idempotencyKey };
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

/** `--expires-at` for the field expires_at that a flag set. */
function nameAsFlag(path: string, { query, body }: ApiRequest): string {
  const field = /^\w+/.exec(path)?.[0] ?? "";
  const isGiven = Object.hasOwn({ ...query, ...(body as object | undefined) }, field);
  return isGiven ? `--${field.replaceAll("_", "-")}${path.slice(field.length)}` : path;
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

export async function runApiCommand(spec: CommandSpec, args: string[], options: ApiOptions): Promise<void> {
  const show = (text: string): void => printResponse(spec, text, options);
  await sendListRequest(buildRequest(spec, args, options), options, show);
}

/** For commands that check their required flags themselves. */
export function requireFlags(spec: CommandSpec, options: ApiOptions): void {
  const missing = spec.flags.filter(({ required, flag }) => required && options[camelCase(flag)] === undefined);
  if (missing.length > 0) throw new ExitError(`Missing: ${missing.map(({ flag }) => `--${flag}`).join(", ")}.`, 2);
}
