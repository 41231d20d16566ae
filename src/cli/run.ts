// Runs a command line. Loads only the chosen command's file: `keyrack key list` must not load the server.
import { Command, CommanderError } from "commander";
import { redact } from "../platform/log.ts";
import { VERSION } from "../platform/version.ts";
import { addCommand, commandTable, HELP } from "./command-table.ts";
import { escapeControls, ExitError } from "./ui/output.ts";

const CREDENTIAL_ARGUMENT =
  "A credential must not be an argument: process lists show those. Pass it on standard input.";

async function buildProgram(name: string | undefined): Promise<Command> {
  const program = new Command("keyrack");
  program
    .description("The self-hosted control plane for API keys.")
    .version(VERSION, "-V, --version")
    .option("--debug", "print the stack trace of an error")
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(usageError(text)) })
    .configureHelp(HELP)
    .addHelpText("after", "\nExamples:\n  keyrack serve\n  keyrack key list --help");
  const chosen = name !== undefined && Object.hasOwn(commandTable, name) ? commandTable[name] : undefined;
  if (chosen) await addCommand(program, chosen);
  else
    for (const [each, { description }] of Object.entries(commandTable)) program.command(each).description(description);
  return program;
}

/** Commander's error, with its suggestion, on one line. */
function usageError(text: string): string {
  const line = text
    .trim()
    .replace(/^error: /, "")
    .replaceAll(/\s*\n\s*/g, " ");
  const isCredential = line.startsWith("too many arguments") && redact(line) !== line;
  return errorLine(`${isCredential ? CREDENTIAL_ARGUMENT : escapeControls(line)} (add --help for usage)`);
}

/** Redacted: an argument that an error repeats may be a credential, and stderr is kept in CI logs. */
function errorLine(text: string): string {
  return redact(`keyrack: ${text}\n`);
}

/** `keyrack help key` is `keyrack key --help`. An unknown command is refused as it is without `help`. */
function expandHelp(args: string[]): string[] {
  if (args[0] !== "help") return args;
  const [, name] = args;
  return name === undefined || Object.hasOwn(commandTable, name) ? [...args.slice(1), "--help"] : args.slice(1);
}

/** Whether the words name no command. A group of commands may be one itself, as `scan` is. */
function isUnknown(program: Command, words: readonly string[]): boolean {
  let command = program;
  for (const word of words.filter((each) => !each.startsWith("-"))) {
    if (command.commands.length === 0 || command.registeredArguments.length > 0 || word === "help") return false;
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (!next) return true;
    command = next;
  }
  return false;
}

/** Commander answers --help, with exit code 0, before it looks at the command: an unknown one must be refused. */
function dropHelp(words: string[]): string[] {
  return words.filter((word) => word !== "--help" && word !== "-h");
}

/** Accepts `--debug` anywhere before `--`; commander accepts it only before the command. */
function extractDebug(argv: string[]): { args: string[]; debug: boolean } {
  const end = argv.indexOf("--");
  const own = end < 0 ? argv : argv.slice(0, end);
  const passedOn = end < 0 ? [] : argv.slice(end);
  return { args: [...own.filter((word) => word !== "--debug"), ...passedOn], debug: own.includes("--debug") };
}

/** Returns the exit code. */
export async function runCommandLine(argv: string[]): Promise<number> {
  const { args, debug } = extractDebug(argv);
  try {
    const words = expandHelp(args);
    const program = await buildProgram(words.find((word) => !word.startsWith("-")));
    await program.parseAsync(isUnknown(program, words) ? dropHelp(words) : words, { from: "user" });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const { message, stack } = error as Error;
    process.stderr.write(errorLine(debug ? String(stack) : escapeControls(message.split("\n")[0] ?? "")));
    return error instanceof ExitError ? error.exitCode : 1;
  }
}
