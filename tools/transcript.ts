// npm run transcript [-- --write]   Runs the README's code blocks in order against a fresh instance and fails if an
// output differs. --write replaces the printed outputs with the real ones.
//
// ```console          a line with `$ ` is a command, the lines below it are its output
// ```console running  a command that keeps running; its output is complete when it has as many lines as printed. It runs
//                     in the background here, so a final ` &`, for the reader's terminal, makes no difference
// ```js NAME          a file to create
//
// Ids, secrets, times and hashes are compared by their form. Ports are replaced by free ones for the run.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { BIN } from "../harness/processes/server.ts";
import { unusedPort } from "../harness/processes/unused-port.ts";
import { bundleSdk } from "./build-sdk.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const PORTS = ["4747", "3000"];
const START_MS = 30_000;

/** Values that differ from run to run, and their placeholders. */
const PLACEHOLDERS: [RegExp, string][] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UUID"],
  [/\b[0-9a-f]{64}\b/g, "HASH"],
  [/\bkr(?:sk)?_(?:live|test)_[\w-]{6}(?:[\w-]{34}|…)/g, "SECRET"],
  [/\bkrset_[\w-]{6}(?:[\w-]{34}|…)/g, "SECRET"],
  [/\bkr(?:sk)?_(?:live|test)_[\w-]{6}(?![\w-])/g, "PREFIX"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "TIME"],
  [/\b\d+\.\d s\b/g, "SECONDS"],
  [/(?<=--data-dir )\S+/g, "DIR"],
];

type Step = { command: string; expected: string[] };
type Block = { kind: "console"; running: boolean; steps: Step[] } | { kind: "file"; name: string; text: string };
/** A block, or the text between two blocks. */
type Part = string | Block;

type Difference = { command: string; expected: string; got: string };

function parsePage(page: string): Part[] {
  return page.split(/^(```(?:console|js \S+)[^\n]*\n[\s\S]*?^```)$/m).map((part) => {
    const [, info, body = ""] = /^```((?:console|js \S+)[^\n]*)\n([\s\S]*?)```$/.exec(part) ?? [];
    if (info === undefined) return part;
    if (!info.startsWith("console")) return { kind: "file", name: info.split(" ")[1] ?? "", text: body };
    return { kind: "console", running: info.endsWith(" running"), steps: parseSteps(body) };
  });
}

function parseSteps(body: string): Step[] {
  const steps: Step[] = [];
  for (const line of body.trimEnd().split("\n")) {
    if (line.startsWith("$ ")) steps.push({ command: line.slice(2), expected: [] });
    else steps.at(-1)?.expected.push(line);
  }
  return steps;
}

function formatPage(parts: Part[]): string {
  return parts
    .map((part) => {
      if (typeof part === "string") return part;
      if (part.kind === "file") return `\`\`\`js ${part.name}\n${part.text}\`\`\``;
      const lines = part.steps.flatMap(({ command, expected }) => [`$ ${command}`, ...expected]);
      return `\`\`\`console${part.running ? " running" : ""}\n${lines.join("\n")}\n\`\`\``;
    })
    .join("");
}

export function normalize(text: string): string {
  return PLACEHOLDERS.reduce((done, [pattern, placeholder]) => done.replace(pattern, placeholder), text.trimEnd());
}

/** Removes whole secrets and this machine's folder from a line, for the page. */
function redact(line: string, dir: string): string {
  return line.replaceAll(/\b(kr(?:set_|(?:sk)?_(?:live|test)_)[\w-]{6})[\w-]{34}/g, "$1…").replaceAll(dir, "/home/you");
}

/** One bash for the whole page, so that variables persist; in its own process group, so that no child outlives it. */
class Shell {
  readonly #child;
  readonly #lines;
  readonly #dir: string;
  #running = 0;

  constructor(dir: string, env: Record<string, string>) {
    this.#dir = dir;
    this.#child = spawn("bash", ["--noprofile", "--norc"], {
      cwd: dir,
      env,
      detached: true,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** Runs a command and returns its output on both streams. An exit status other than 0 is added as a line. */
  async run(command: string): Promise<string[]> {
    const marker = "--- transcript: done ";
    // Output goes to a file first: a command whose output has no final newline would swallow the marker.
    this.#child.stdin.write(`{ ${command}\n} > .output 2>&1 < /dev/null\necho "${marker}$?"\n`);
    const { value, done } = await this.#lines.next();
    if (done || !value.startsWith(marker)) throw new Error(`the shell ended in: ${command}`);
    const status = value.slice(marker.length);
    const lines = splitLines(readFileSync(join(this.#dir, ".output"), "utf8"));
    return status === "0" ? lines : [...lines, `(exit status ${status})`];
  }

  /** Starts a command in the background and waits until it has printed this number of lines. */
  async start(command: string, lineCount: number): Promise<string[]> {
    const file = `.running-${this.#running++}`;
    this.#child.stdin.write(`${command.replace(/ &$/, "")} > ${file} 2> ${file}.err < /dev/null &\n`);
    const until = Date.now() + START_MS;
    for (;;) {
      const got = splitLines(readIfPresent(join(this.#dir, file)));
      if (got.length >= lineCount) return got;
      if (Date.now() > until) {
        const errors = readIfPresent(join(this.#dir, `${file}.err`));
        throw new Error(`${command} printed ${got.length} of ${lineCount} lines: ${errors}`);
      }
      await new Promise((resume) => setTimeout(resume, 20));
    }
  }

  async end(): Promise<void> {
    const ended = once(this.#child, "exit");
    // Background jobs first, so that the servers shut down cleanly and bash does not report them.
    this.#child.stdin.end("kill $(jobs -p) 2> /dev/null; wait\n");
    await ended;
  }
}

function readIfPresent(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function splitLines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** What the page needs of an installation: `keyrack` on the path, and the SDK where the page has a file to run. */
async function prepareCheckout(dir: string, needsSdk: boolean): Promise<void> {
  mkdirSync(join(dir, "bin"), { recursive: true });
  symlinkSync(BIN, join(dir, "bin/keyrack"));
  const checkout = join(dir, "keyrack");
  mkdirSync(checkout);
  cpSync(join(root, "package.json"), join(checkout, "package.json"));
  symlinkSync(join(root, "node_modules"), join(checkout, "node_modules"));
  if (needsSdk) await bundleSdk(join(checkout, "dist/sdk")); // its scripts: no command reads types
}

function replacePorts(text: string, pairs: Iterable<readonly [string, string]>): string {
  return [...pairs].reduce((done, [from, to]) => done.replaceAll(new RegExp(`\\b${from}\\b`, "g"), to), text);
}

export async function runPage(page: string): Promise<{ differences: Difference[]; page: string; commands: number }> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-transcript-"));
  const ports = new Map<string, string>();
  for (const port of PORTS) ports.set(port, String(await unusedPort()));
  const parts = parsePage(page);
  await prepareCheckout(
    dir,
    parts.some((part) => typeof part !== "string" && part.kind === "file"),
  );
  const originalPorts = [...ports].map(([written, used]) => [used, written] as const);
  const server = ports.get("4747") ?? "";
  const shell = new Shell(join(dir, "keyrack"), {
    PATH: `${join(dir, "bin")}:${process.env.PATH ?? ""}`,
    HOME: dir,
    KEYRACK_PORT: server,
    KEYRACK_URL: `http://127.0.0.1:${server}`,
  });
  const runStep = async ({ command, expected }: Step, running: boolean): Promise<string[]> => {
    const actual = replacePorts(command, ports);
    const lines = running ? await shell.start(actual, Math.max(1, expected.length)) : await shell.run(actual);
    return lines.map((line) => redact(replacePorts(line, originalPorts), dir));
  };
  const differences: Difference[] = [];
  let commands = 0;
  try {
    for (const part of parts) {
      if (typeof part === "string") continue;
      if (part.kind === "file") {
        writeFileSync(join(dir, "keyrack", part.name), replacePorts(part.text, ports));
        continue;
      }
      for (const step of part.steps) {
        commands++;
        const lines = await runStep(step, part.running);
        const [expected, got] = [normalize(step.expected.join("\n")), normalize(lines.join("\n"))];
        if (expected !== got) differences.push({ command: step.command, expected, got });
        step.expected = lines;
      }
    }
  } finally {
    await shell.end();
    rmSync(dir, { recursive: true, force: true });
  }
  return { differences, page: formatPage(parts), commands };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const path = join(root, "README.md");
  const { differences, page, commands } = await runPage(readFileSync(path, "utf8"));
  for (const { command, expected, got } of differences)
    console.error(`$ ${command}\n--- README\n${expected}\n--- actual output\n${got}\n`);
  if (process.argv.includes("--write")) writeFileSync(path, page);
  else if (differences.length > 0) process.exitCode = 4;
  console.log(`${commands} commands run, ${differences.length} with a different output than in the README.`);
}
