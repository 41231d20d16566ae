// From nothing to a minted key on a machine with npm and its own Node: a fresh clone of the last commit, ./install.sh
// with its own home, then the README's commands. Also checks that a second run of install.sh is safe and that
// --uninstall keeps the data.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Row } from "./report.ts";
import type { RowName } from "./rows.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const FIVE_MINUTES_S = 300;

type Step = (command: string) => string;

/** The PATH without what `npm run` adds: the machine's own Node and npm. */
function ownPath(): string {
  const dirs = (process.env.PATH ?? "").split(delimiter);
  return dirs.filter((dir) => !/node_modules|node-gyp-bin/.test(dir)).join(delimiter);
}

async function timed(work: () => unknown): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

function shellIn(cwd: string, home: string): { run: Step; env: Record<string, string> } {
  const env = {
    PATH: `${join(home, ".local/bin")}:${ownPath()}`,
    HOME: home,
    XDG_CONFIG_HOME: join(home, ".config"),
    NPM_CONFIG_USERCONFIG: join(homedir(), ".npmrc"),
    NPM_CONFIG_CACHE: join(home, ".npm"),
  };
  const run: Step = (command) =>
    execFileSync("sh", ["-c", command], { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
  return { run, env };
}

function need(holds: boolean, promise: string): void {
  if (!holds) throw new Error(`install.sh does not hold its promise: ${promise}`);
}

/** The README's commands, up to the key. */
async function serveAndMint(clone: string, { run, env }: ReturnType<typeof shellIn>): Promise<void> {
  const port = String(20_000 + (process.pid % 20_000));
  env.KEYRACK_PORT = port;
  env.KEYRACK_URL = `http://127.0.0.1:${port}`;
  const server = spawn("keyrack", ["serve"], { cwd: clone, env, stdio: ["ignore", "pipe", "ignore"] });
  const exited = once(server, "exit");
  try {
    await once(createInterface({ input: server.stdout }), "line");
    run("keyrack workspace create --name Acme --slug acme --save");
    const project = run('keyrack project create --name "Orders API" --slug orders --quiet');
    const tenant = run("keyrack tenant create --external-id customer-1 --quiet");
    const key = run(`keyrack key create --project-id ${project} --tenant-id ${tenant} --env live --quiet`);
    need(/^kr_live_[\w-]{40}$/.test(key), "keyrack mints a key");
  } finally {
    server.kill("SIGTERM");
    await exited;
  }
}

export async function install(): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-install-"));
  const [clone, home] = [join(dir, "keyrack"), join(dir, "home")];
  try {
    execFileSync("mkdir", ["-p", home]);
    const cloned = await timed(() => execFileSync("git", ["clone", "--quiet", root, clone]));
    const shell = shellIn(clone, home);
    const flags = "--prefix $HOME/.local";
    console.error(`installing on Node ${shell.run("node --version")} …`);
    const first = await timed(() => shell.run(`./install.sh ${flags}`));
    const minted = await timed(() => serveAndMint(clone, shell));
    const second = await timed(() => shell.run(`./install.sh ${flags}`));
    need(shell.run("keyrack version") !== "", "it runs after a second run");
    const before = readdirSync(join(clone, "keyrack-data")).toSorted();
    shell.run(`./install.sh ${flags} --uninstall`);
    need(!existsSync(join(home, ".local/bin/keyrack")), "--uninstall removes the binary");
    const after = readdirSync(join(clone, "keyrack-data")).toSorted();
    need(before.includes("keyrack.db") && before.join() === after.join(), "--uninstall keeps the data");
    const row = (name: RowName, ours: number): Row => ({
      name,
      ours,
      peer: FIVE_MINUTES_S,
      ratio: ours / FIVE_MINUTES_S,
      target: "<= 1",
      unit: "s",
    });
    return [
      row("install/first-key", cloned + first + minted),
      row("install/install", first),
      row("install/serve-and-mint", minted),
      row("install/again", second),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
