// npm run transcript [-- --write]   Runs the README's code blocks in order against a throwaway instance and fails when an
// output differs from the one printed there. --write puts the real outputs in.
// ```console blocks are run: a line with `$ ` is a command, the lines below it are what it prints. ```console running starts
// something that stays; its output is complete when it has as many lines as printed. ```js NAME is a file.
// Ids, secrets, times and hashes are compared by their form. Ports are taken free ones; the README's stand in the texts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildSdk } from "./build-sdk.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const BIN = process.env.KEYRACK_TEST_BIN ?? join(root, "bin/keyrack");
const PORTS = ["4747", "3000"];
const START_MS = 30_000;

/** What may differ from run to run, and what stands for it. */
const FORMS: [RegExp, string][] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UUID"],
  [/\b[0-9a-f]{64}\b/g, "HASH"],
  [/\bkr(?:sk)?_(?:live|test)_[\w-]{6}(?:[\w-]{34}|…)/g, "SECRET"],
  [/\bkr(?:sk)?_(?:live|test)_[\w-]{6}(?![\w-])/g, "PREFIX"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "TIME"],
  [/\b\d+\.\d s\b/g, "SECONDS"],
  [/(?<=--data-dir )\S+/g, "DIR"],
];

type Step = { command: string; expected: string[] };
type Block = { kind: "console"; running: boolean; steps: Step[] } | { kind: "file"; name: string; text: string };
type Part = string | Block;

export type Difference = { command: string; expected: string; got: string };

/** The page's text between blocks, and its blocks. Joined again by `pageOf`. */
function partsOf(page: string): Part[] {
  return page.split(/^(```(?:console|js \S+)[^\n]*\n[\s\S]*?^```)$/m).map((part) => {
    const [, info, body = ""] = /^```((?:console|js \S+)[^\n]*)\n([\s\S]*?)```$/.exec(part) ?? [];
    if (info === undefined) return part;
    if (!info.startsWith("console")) return { kind: "file", name: info.split(" ")[1] ?? "", text: body };
    return { kind: "console", running: info.endsWith(" running"), steps: stepsOf(body) };
  });
}

function stepsOf(body: string): Step[] {
  const steps: Step[] = [];
  for (const line of body.trimEnd().split("\n")) {
    if (line.startsWith("$ ")) steps.push({ command: line.slice(2), expected: [] });
    else steps.at(-1)?.expected.push(line);
  }
  return steps;
}

function pageOf(parts: Part[]): string {
  return parts
    .map((part) => {
      if (typeof part === "string") return part;
      if (part.kind === "file") return `\`\`\`js ${part.name}\n${part.text}\`\`\``;
      const lines = part.steps.flatMap(({ command, expected }) => [`$ ${command}`, ...expected]);
      return `\`\`\`console${part.running ? " running" : ""}\n${lines.join("\n")}\n\`\`\``;
    })
    .join("");
}

export function normalised(text: string): string {
  return FORMS.reduce((done, [form, stand]) => done.replace(form, stand), text.trimEnd());
}

/** As the page may show it: no whole secret, and no folder of this machine. */
function presentable(line: string, dir: string): string {
  return line.replaceAll(/\b(kr(?:sk)?_(?:live|test)_[\w-]{6})[\w-]{34}/g, "$1…").replaceAll(dir, "/home/you");
}

/** One bash for the whole page, so that variables live on; in a process group of its own, so that nothing outlives it. */
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

  /** What it prints, on either stream; a status other than 0 is a line of its own. */
  async run(command: string): Promise<string[]> {
    const mark = "--- transcript: done ";
    // Into a file first: what prints no line end must not swallow the mark.
    this.#child.stdin.write(`{ ${command}\n} > .output 2>&1 < /dev/null\necho "${mark}$?"\n`);
    const { value, done } = await this.#lines.next();
    if (done || !value.startsWith(mark)) throw new Error(`the shell ended in: ${command}`);
    const status = value.slice(mark.length);
    const lines = linesOf(readFileSync(join(this.#dir, ".output"), "utf8"));
    return status === "0" ? lines : [...lines, `(exit status ${status})`];
  }

  /** Starts what does not end, and waits until it has printed so many lines. */
  async start(command: string, lines: number): Promise<string[]> {
    const file = `.running-${this.#running++}`;
    this.#child.stdin.write(`${command} > ${file} 2> ${file}.err < /dev/null &\n`);
    const until = Date.now() + START_MS;
    for (;;) {
      const got = linesOf(await readOr(join(this.#dir, file)));
      if (got.length >= lines) return got;
      if (Date.now() > until) {
        throw new Error(
          `${command} printed ${got.length} of ${lines} lines: ${await readOr(join(this.#dir, `${file}.err`))}`,
        );
      }
      await new Promise((resume) => setTimeout(resume, 20));
    }
  }

  async end(): Promise<void> {
    const ended = once(this.#child, "exit");
    // The children first: bash would report them, and the servers get to end well.
    this.#child.stdin.end("kill $(jobs -p) 2> /dev/null; wait\n");
    await ended;
  }
}

async function readOr(path: string): Promise<string> {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return String(port);
}

/** What `./install.sh` leaves behind, as far as the page needs it: the library built, `keyrack` on the path. */
async function checkoutIn(dir: string): Promise<void> {
  mkdirSync(join(dir, "bin"), { recursive: true });
  symlinkSync(BIN, join(dir, "bin/keyrack"));
  const checkout = join(dir, "keyrack");
  mkdirSync(checkout);
  cpSync(join(root, "package.json"), join(checkout, "package.json"));
  symlinkSync(join(root, "node_modules"), join(checkout, "node_modules"));
  await buildSdk(join(checkout, "dist/sdk"));
}

export async function runPage(page: string): Promise<{ differences: Difference[]; page: string; commands: number }> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-transcript-"));
  const ports = new Map<string, string>();
  for (const port of PORTS) ports.set(port, await freePort());
  const swap = (text: string, pairs: Iterable<readonly [string, string]>): string =>
    [...pairs].reduce((done, [from, to]) => done.replaceAll(new RegExp(`\\b${from}\\b`, "g"), to), text);
  const back = [...ports].map(([written, used]) => [used, written] as const);
  await checkoutIn(dir);
  const server = ports.get("4747") ?? "";
  const shell = new Shell(join(dir, "keyrack"), {
    PATH: `${join(dir, "bin")}:${process.env.PATH ?? ""}`,
    HOME: dir,
    KEYRACK_PORT: server,
    KEYRACK_URL: `http://127.0.0.1:${server}`,
  });
  const parts = partsOf(page);
  const differences: Difference[] = [];
  let commands = 0;
  try {
    for (const part of parts) {
      if (typeof part === "string") continue;
      if (part.kind === "file") {
        writeFileSync(join(dir, "keyrack", part.name), swap(part.text, ports));
        continue;
      }
      for (const step of part.steps) {
        commands++;
        const command = swap(step.command, ports);
        const raw = part.running
          ? await shell.start(command, Math.max(1, step.expected.length))
          : await shell.run(command);
        const got = raw.map((line) => presentable(swap(line, back), dir));
        const [want, is] = [normalised(step.expected.join("\n")), normalised(got.join("\n"))];
        if (want !== is) differences.push({ command: step.command, expected: want, got: is });
        step.expected = got;
      }
    }
  } finally {
    await shell.end();
    rmSync(dir, { recursive: true, force: true });
  }
  return { differences, page: pageOf(parts), commands };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const path = join(root, "README.md");
  const { differences, page, commands } = await runPage(readFileSync(path, "utf8"));
  for (const { command, expected, got } of differences)
    console.error(`$ ${command}\n--- the README says\n${expected}\n--- it prints\n${got}\n`);
  if (process.argv.includes("--write")) writeFileSync(path, page);
  else if (differences.length > 0) process.exitCode = 4;
  console.log(`${commands} commands, ${differences.length} with another output than the README's.`);
}
