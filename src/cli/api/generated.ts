// Builds the commands that are one API call each from commands.gen.json. A noun's own file may extend some of them.
import { Option, type Command } from "commander";
import { readText } from "../../platform/packaged-files.ts";
import { collectValues, ExitError, examples, outputFlags } from "../ui/output.ts";
import type { CommandSpec, CommandSpecs, FlagSpec } from "./command-spec.ts";
import { runApiCommand, type ApiOptions, type Run } from "./send.ts";
import { targetFlags } from "./target.ts";

export type Extension = {
  /** Adds flags. */
  flags?: (command: Command) => Command;
  /** Replaces the plain API call. */
  run?: Run;
  /** `run` checks the required flags itself, because another flag may replace them. */
  checksRequired?: true;
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
  command.addHelpText("after", examples(spec.examples));
  const run: Run = extension.run ?? runOrWait;
  command.action(async (...given: unknown[]) => {
    const args = given.slice(0, spec.args.length) as string[];
    await run(spec, args, given[spec.args.length] as ApiOptions);
  });
}

/** `--wait` of a change that nodes must learn: until every node has acknowledged it. */
const runOrWait: Run = async (spec, args, options) => {
  if (!options.wait) return runApiCommand(spec, args, options);
  const { changeAndWait } = await import("./change-and-wait.ts");
  return changeAndWait(spec, args, options);
};

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
