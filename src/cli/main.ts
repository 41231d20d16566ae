// The command line. Each command loads only its own file: `keyrack key list` must not pay for the server.
import { Command, CommanderError } from "commander";
import { VERSION } from "../platform/version.ts";
import { nouns } from "./command-table.ts";
import { type ExitError, safe } from "./ui/output.ts";
import { widenThreadPool } from "./thread-pool.ts";

widenThreadPool();

// Whoever read us has left (`| head`, a log collector that ended): what was begun is finished all the same, and a server
// serves on. Unheard, the error would end the process with a stack.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});
// A log that cannot be written (its disk is full) is no reason to stop serving; an export that cannot be is one to fail.
process.stderr.on("error", () => {});

async function build(noun: string | undefined): Promise<Command> {
  const program = new Command("keyrack");
  program
    .description("The self-hosted control plane for API keys.")
    .version(VERSION, "-V, --version")
    .option("--debug", "show the stack of an error")
    .exitOverride()
    .showHelpAfterError("(add --help for help)")
    .configureHelp({ showGlobalOptions: false })
    .addHelpText("after", "\nExamples:\n  keyrack serve\n  keyrack key list --help");
  const chosen = noun !== undefined && Object.hasOwn(nouns, noun) ? nouns[noun] : undefined;
  if (chosen) (await chosen.load())(program);
  else for (const [name, { about }] of Object.entries(nouns)) program.command(name).description(about);
  return program;
}

/** `--debug` may stand anywhere before `--`; commander would want it before the noun. */
function takeDebug(argv: string[]): { args: string[]; debug: boolean } {
  const end = argv.indexOf("--");
  const own = end < 0 ? argv : argv.slice(0, end);
  const rest = end < 0 ? [] : argv.slice(end);
  return { args: [...own.filter((word) => word !== "--debug"), ...rest], debug: own.includes("--debug") };
}

export async function main(argv: string[]): Promise<number> {
  const { args, debug } = takeDebug(argv.slice(2));
  try {
    // `keyrack help key` is `keyrack key --help`.
    const words = args[0] === "help" ? [...args.slice(1), "--help"] : args;
    const program = await build(words.find((word) => !word.startsWith("-")));
    await program.parseAsync(words, { from: "user" });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const { message, stack } = error as Error;
    process.stderr.write(`keyrack: ${debug ? stack : safe(message.split("\n")[0] ?? "")}\n`);
    const { exitCode } = error as Partial<ExitError>;
    return typeof exitCode === "number" ? exitCode : 1;
  }
}

void main(process.argv).then((code) => {
  process.exitCode = code;
});
