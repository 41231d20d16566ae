// Commands that are one call of the API, built from commands.gen.json. A noun's own file may add to them.
import { Option, type Command } from "commander";
import { readText } from "../../platform/packaged-files.ts";
import { present } from "../ui/format.ts";
import { isRefusal, jsonOf, request, type Answer, type Ask } from "./request.ts";
import { ExitError, out } from "../ui/output.ts";
import {
  outputFlags,
  requireBearer,
  resolveTarget,
  targetFlags,
  type OutputOptions,
  type TargetOptions,
} from "./target.ts";
import type { Flag, Noun, Verb } from "./command-spec.ts";

export type VerbOptions = TargetOptions &
  OutputOptions & { idempotencyKey?: string; unset?: string[] } & Record<string, unknown>;
export type Run = (verb: Verb, args: string[], options: VerbOptions) => Promise<void>;
export type Custom = {
  /** Extra flags. */
  flags?: (command: Command) => Command;
  /** Instead of the plain call. */
  run?: Run;
  /** Required flags are checked by `run`, because another flag may stand for them. */
  lenient?: true;
  examples?: [string, string];
};

let loaded: Record<string, Noun> | undefined;

export function nounTable(): Record<string, Noun> {
  return (loaded ??= JSON.parse(readText("src/cli/api/commands.gen.json")) as Record<string, Noun>);
}

export function verbOf(noun: string, name: string): Verb {
  const verb = nounTable()[noun]?.verbs[name];
  if (!verb) throw new Error(`no command ${noun} ${name}`);
  return verb;
}

function optionOf(flag: Flag, lenient: boolean): Option {
  const about = [flag.about ?? flag.name.replaceAll("_", " "), flag.required && "required"].filter(Boolean).join("; ");
  if (flag.kind === "switch") return new Option(`--${flag.flag}`, about);
  const many = flag.kind === "list";
  const option = new Option(
    `--${flag.flag} <${flag.kind === "text" ? "value" : flag.kind === "list" ? "value" : flag.kind}>`,
    about,
  );
  if (flag.choices) option.choices(flag.choices);
  if (many) option.argParser((value: string, all: string[] | undefined) => [...(all ?? []), value]);
  return flag.required && !lenient ? option.makeOptionMandatory() : option;
}

function addVerb(parent: Command, noun: string, name: string, verb: Verb, custom: Custom): void {
  const command = parent.command(name).description(verb.summary);
  for (const arg of verb.args) command.argument(`<${arg}>`);
  for (const flag of verb.flags) command.addOption(optionOf(flag, custom.lenient === true));
  const patch = verb.route.startsWith("PATCH ");
  const nullable = verb.flags.filter((flag) => patch && flag.nullable).map(({ flag }) => flag);
  if (nullable.length > 0) {
    const unset = new Option("--unset <field>", "clear a field; may be given several times");
    command.addOption(
      unset.argParser((value: string, all: string[] | undefined) => {
        if (!nullable.includes(value)) throw new ExitError(`--unset takes ${nullable.join(", ")}.`, 2);
        return [...(all ?? []), value];
      }),
    );
  }
  if (verb.idempotent) command.option("--idempotency-key <key>", "makes a retry safe: the same key, the same answer");
  custom.flags?.(command);
  outputFlags(command, verb.quiet && verb.secret ? "print only the key" : undefined);
  targetFlags(command);
  command.addHelpText("after", `\nExamples:\n  ${(custom.examples ?? verb.examples).join("\n  ")}`);
  const run: Run = custom.run ?? ((own, args, options) => runVerb(noun, name, own, args, options));
  command.action(async (...given: unknown[]) => {
    const args = given.slice(0, verb.args.length) as string[];
    await run(verb, args, given[verb.args.length] as VerbOptions);
  });
}

/** A noun with all its one-call verbs; `custom` adds to some of them. */
export function addVerbs(program: Command, noun: string, custom: Record<string, Custom> = {}): Command {
  const { about, verbs } = nounTable()[noun] ?? { about: "", verbs: {} };
  const parent = program.command(noun).description(about);
  for (const [name, verb] of Object.entries(verbs)) addVerb(parent, noun, name, verb, custom[name] ?? {});
  return parent;
}

const camel = (flag: string): string => flag.replace(/-(\w)/g, (_all, letter: string) => letter.toUpperCase());

function valueOf(flag: Flag, given: unknown): unknown {
  if (flag.kind === "switch") return given === true ? "true" : undefined;
  if (flag.kind === "list") return given;
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
  const good = text.trim() !== "" && Number.isFinite(number) && (flag.kind === "number" || Number.isInteger(number));
  if (!good) throw new ExitError(`--${flag.flag} takes ${flag.kind === "number" ? "a number" : "a whole number"}.`, 2);
  return number;
}

/** The request that the flags spell out. */
export function askOf(verb: Verb, args: string[], options: VerbOptions): Ask {
  const [method = "GET", pattern = "/"] = verb.route.split(" ");
  let next = 0;
  const path = pattern.replace(/\{\w+\}/g, () => encodeURIComponent(args[next++] ?? ""));
  const query: Record<string, string | string[]> = {};
  const body: Record<string, unknown> = {};
  for (const flag of verb.flags) {
    const given = options[camel(flag.flag)];
    const value = options.unset?.includes(flag.flag) ? null : given === undefined ? undefined : valueOf(flag, given);
    if (value === undefined) continue;
    if (flag.in === "body") body[flag.name] = value;
    else if (Array.isArray(value)) query[flag.name] = value as string[];
    else query[flag.name] = typeof value === "string" ? value : JSON.stringify(value);
  }
  return { method, path, query, ...(verb.hasBody && { body }), idempotencyKey: options.idempotencyKey };
}

/** Sends it; a refusal is printed under --json as it came, and ends the command with 1. */
export async function sendVerb(
  ask: Ask,
  options: VerbOptions,
  target = requireBearer(resolveTarget(options)),
): Promise<Answer> {
  const answer = await request(target, ask);
  if (isRefusal(answer) && options.json) out(answer.text.trimEnd());
  jsonOf(answer);
  return answer;
}

export async function runVerb(
  noun: string,
  name: string,
  verb: Verb,
  args: string[],
  options: VerbOptions,
): Promise<void> {
  const answer = await sendVerb(askOf(verb, args, options), options);
  present(noun, name, verb, answer.text, options);
}

/** For verbs whose required flags another flag may stand for. */
export function requireFlags(verb: Verb, options: VerbOptions): void {
  const missing = verb.flags.filter(({ required, flag }) => required && options[camel(flag)] === undefined);
  if (missing.length > 0) throw new ExitError(`Missing: ${missing.map(({ flag }) => `--${flag}`).join(", ")}.`, 2);
}
