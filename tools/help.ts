// Every command's --help in one text: the golden file test/golden/help.txt.
import type { Command } from "commander";
import { buildFullProgram } from "../src/cli/command-table.ts";

const WIDTH = 100;

function* commandsUnder(command: Command, path: string): Generator<{ path: string; command: Command }> {
  yield { path, command };
  for (const sub of command.commands) yield* commandsUnder(sub, `${path} ${sub.name()}`);
}

/** The commands that do something: those without subcommands, and those that take arguments of their own. */
export async function leafCommands(): Promise<{ words: string[]; command: Command }[]> {
  const all = [...commandsUnder(await buildFullProgram(), "keyrack")];
  return all
    .filter(({ command }) => command.commands.length === 0 || command.registeredArguments.length > 0)
    .map(({ path, command }) => ({ words: path.split(" ").slice(1), command }));
}

export function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({
    writeOut: (part) => (text += part),
    getOutHelpWidth: () => WIDTH,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return text.trimEnd();
}

export async function helpPage(): Promise<string> {
  const all = [...commandsUnder(await buildFullProgram(), "keyrack")].slice(1);
  return `${all.map(({ path, command }) => `$ ${path} --help\n${helpOf(command)}`).join("\n\n")}\n`;
}
