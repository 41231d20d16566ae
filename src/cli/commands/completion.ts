// `keyrack completion bash/zsh/fish`: prints a script with every command and flag, built from the commands themselves.
import type { Command } from "commander";
import { ExitError, examples, print } from "../ui/output.ts";

type Word = { word: string; about: string };
/** A command and the words that may follow it. */
type Completion = { command: string; words: Word[] };

const SHELLS = { bash, zsh, fish } as const satisfies Record<string, (all: Completion[]) => string>;
export type Shell = keyof typeof SHELLS;

/** `buildFullProgram` is an argument because the command table, which has it, loads this file. */
export function addCompletionCommand(program: Command, buildFullProgram: () => Promise<Command>): void {
  program
    .command("completion")
    .argument("<shell>", "bash, zsh or fish")
    .option("--json", "print every command and flag as JSON instead")
    .option("--quiet", "no effect")
    .addHelpText(
      "after",
      examples([
        "keyrack completion bash > /etc/bash_completion.d/keyrack",
        "keyrack completion fish > ~/.config/fish/completions/keyrack.fish",
      ]),
    )
    .action(async (shell: string, options: { json?: true }) => {
      const program = await buildFullProgram();
      if (options.json) return print(JSON.stringify({ object: "list", data: listCompletions(program) }));
      if (!Object.hasOwn(SHELLS, shell)) throw new ExitError("The shell must be bash, zsh or fish.", 2);
      print(completionScript(shell as Shell, program));
    });
}

export function completionScript(shell: Shell, program: Command): string {
  return SHELLS[shell](listCompletions(program));
}

/** Every command of a program with the words that may follow it. */
export function listCompletions(program: Command): Completion[] {
  const all: Completion[] = [];
  const visit = (command: Command, path: string): void => {
    const subcommands = command.commands.map((sub) => ({ word: sub.name(), about: sub.description() }));
    const flags = command.options
      .filter(({ long }) => long)
      .map(({ long, description }) => ({ word: long ?? "", about: description }));
    all.push({ command: path, words: [...subcommands, ...flags, { word: "--help", about: "display help" }] });
    for (const sub of command.commands) visit(sub, `${path} ${sub.name()}`.trim());
  };
  visit(program, "");
  return all;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(all: Completion[]): string {
  const cases = all.map(
    ({ command, words }) => `    ${quoted(command)}) words=${quoted(words.map(({ word }) => word).join(" "))} ;;`,
  );
  return `# bash completion for keyrack
_keyrack() {
  local cur=\${COMP_WORDS[COMP_CWORD]} path= i words=
  for ((i = 1; i < COMP_CWORD && i < 3; i++)); do
    case \${COMP_WORDS[i]} in -*) break ;; *) path="\${path:+$path }\${COMP_WORDS[i]}" ;; esac
  done
  case $path in
${cases.join("\n")}
  esac
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -o default -F _keyrack keyrack`;
}

function zsh(all: Completion[]): string {
  const entry = ({ word, about }: Word): string => quoted(`${word}:${about.replaceAll(":", "\\:")}`);
  const cases = all.map(({ command, words }) => `    ${quoted(command)}) list=(${words.map(entry).join(" ")}) ;;`);
  return `#compdef keyrack
_keyrack() {
  local -a list
  local path_ i
  for ((i = 2; i < CURRENT && i < 4; i++)); do
    [[ \${words[i]} == -* ]] && break
    path_="\${path_:+$path_ }\${words[i]}"
  done
  case $path_ in
${cases.join("\n")}
  esac
  if (( \${#list} )); then _describe command list; else _files; fi
}
# Read from a folder of completions, this file is the body of _keyrack itself.
if [[ \${funcstack[1]} == _keyrack ]]; then _keyrack; else compdef _keyrack keyrack; fi`;
}

function fish(all: Completion[]): string {
  const lines = all.flatMap(({ command, words }) => {
    const seen =
      command === ""
        ? "__fish_use_subcommand"
        : command
            .split(" ")
            .map((word) => `__fish_seen_subcommand_from ${word}`)
            .join("; and ");
    return words.map(({ word, about }) => {
      const candidate = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${quoted(word)}`;
      return `complete -c keyrack -n ${quoted(seen)} ${candidate} -d ${quoted(about)}`;
    });
  });
  return ["# fish completion for keyrack", ...lines].join("\n");
}
