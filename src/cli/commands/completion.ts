// `keyrack completion bash/zsh/fish`: prints a script that knows every noun, verb and flag, made from the commands.
import { Command } from "commander";
import { nouns } from "../command-table.ts";
import { ExitError, out } from "../ui/output.ts";

type Words = { command: string; words: { word: string; about: string }[] };

export function addCompletionCommand(program: Command): void {
  program
    .command("completion")
    .description("Print a completion script for your shell.")
    .argument("<shell>", "bash, zsh or fish")
    .option("--json", "print every command and flag as JSON instead")
    .option("--quiet", "changes nothing")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack completion bash > /etc/bash_completion.d/keyrack\n  keyrack completion fish > ~/.config/fish/completions/keyrack.fish",
    )
    .action(async (shell: string, options: { json?: true }) => {
      const all = await wordsOfAll();
      if (options.json) return out(JSON.stringify({ object: "list", data: all }));
      const script = { bash, zsh, fish }[shell as "bash"];
      if (!script) throw new ExitError("The shell is bash, zsh or fish.", 2);
      out(script(all));
    });
}

/** Every command with the words that may follow it. */
export async function wordsOfAll(): Promise<Words[]> {
  const program = new Command("keyrack");
  for (const { load } of Object.values(nouns)) (await load())(program);
  const all: Words[] = [];
  const visit = (command: Command, path: string): void => {
    const subs = command.commands.map((sub) => ({ word: sub.name(), about: sub.description() }));
    const flags = command.options
      .filter(({ long }) => long)
      .map(({ long, description }) => ({ word: long ?? "", about: description }));
    all.push({ command: path, words: [...subs, ...flags, { word: "--help", about: "display help" }] });
    for (const sub of command.commands) visit(sub, `${path} ${sub.name()}`.trim());
  };
  visit(program, "");
  return all;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(all: Words[]): string {
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

function zsh(all: Words[]): string {
  const entry = ({ word, about }: Words["words"][number]): string => quoted(`${word}:${about.replaceAll(":", "\\:")}`);
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
compdef _keyrack keyrack`;
}

function fish(all: Words[]): string {
  const lines = all.flatMap(({ command, words }) => {
    const seen =
      command === ""
        ? "__fish_use_subcommand"
        : command
            .split(" ")
            .map((word) => `__fish_seen_subcommand_from ${word}`)
            .join("; and ");
    return words.map(({ word, about }) => {
      const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${quoted(word)}`;
      return `complete -c keyrack -n ${quoted(seen)} ${what} -d ${quoted(about)}`;
    });
  });
  return ["# fish completion for keyrack", ...lines].join("\n");
}
