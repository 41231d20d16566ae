// Start times and idle memory of the binary, if it is built (npm run build), and of the checkout.
// A command is one that calls a running instance over HTTP; its peer is `node -e 0` in the same round.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { cpuMicros } from "./micros.ts";
import { interleave, rowOf, type Row } from "./report.ts";

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
const BARE = `require("node:http").createServer().listen(0,"127.0.0.1",()=>console.log("ready"))`;
const ROUNDS = 9;
const READY_MORE_MS = 400;
const RSS_MAX_MB = 120;
const ANONYMOUS_MAX_MB = 50;
/** V8 gives memory back when a process has been idle for some ten seconds. */
const IDLE_MS = 20_000;
/** CPU time is counted in hundredths of a second. */
const BARE_STARTS = 5;
const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/tmp" };

type Up = { line: string; ms: number; pid: number; end(): Promise<void> };

/** Waits for the first line on stdout: the server listens. */
async function untilReady(file: string, args: string[]): Promise<Up> {
  const started = performance.now();
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  const exited = new Promise<void>((resolve) => child.on("exit", () => resolve()));
  const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
  const ms = performance.now() - started;
  return {
    line,
    ms,
    pid: child.pid ?? 0,
    end: () => {
      child.kill("SIGTERM");
      return exited;
    },
  };
}

async function readyMs(file: string, args: string[]): Promise<number> {
  const up = await untilReady(file, args);
  await up.end();
  return up.ms;
}

async function commandMs(file: string, args: string[], more: Record<string, string> = {}): Promise<number> {
  const started = performance.now();
  const { status, stderr } = spawnSync(file, args, { env: { ...env, ...more } });
  if (status !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${status}: ${stderr.toString()}`);
  return performance.now() - started;
}

/** `RssAnon`: without pages of files, such as the binary's own, which processes share and the kernel can drop. */
function memoryMb(pid: number, field: "VmRSS" | "RssAnon"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const [, kb = "0"] = new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status) ?? [];
  return Number(kb) / 1024;
}

/** CPU time until the server listens; of `node -e 0` until its end. */
async function readyCpuMs(file: string, args: string[]): Promise<number> {
  const up = await untilReady(file, args);
  const ms = cpuMicros(up.pid) / 1000;
  await up.end();
  return ms;
}

function bareCpuMs(): number {
  const before = cpuOfChildren();
  for (let i = 0; i < BARE_STARTS; i++) spawnSync(process.execPath, ["-e", "0"], { env });
  return (cpuOfChildren() - before) / BARE_STARTS;
}

/** Milliseconds of all children that have ended. */
function cpuOfChildren(): number {
  const text = readFileSync("/proc/self/stat", "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[13]) + Number(fields[14])) * 10;
}

async function measure(name: "binary" | "checkout", keyrack: string, commandMax: number): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const serve = ["serve", "--json", "--port", "0", "--data-dir", dir];
  try {
    await readyMs(keyrack, serve); // the first start creates the database
    const cold = await interleave(ROUNDS, {
      ours: () => readyMs(keyrack, serve),
      bare: () => readyMs(process.execPath, ["-e", BARE]),
    });
    const cpu = await interleave(ROUNDS, {
      ours: () => readyCpuMs(keyrack, serve),
      bare: async () => bareCpuMs(),
    });
    const up = await untilReady(keyrack, ["serve", "--ephemeral", "--seed", "--json"]);
    const { url, secret_key } = JSON.parse(up.line) as { url: string; secret_key: string };
    const client = { KEYRACK_URL: url, KEYRACK_SECRET_KEY: secret_key };
    const command = await interleave(ROUNDS * 2, {
      ours: () => commandMs(keyrack, ["project", "list", "--json"], client),
      bare: () => commandMs(process.execPath, ["-e", "0"]),
    });
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    const [rss, anonymous] = [memoryMb(up.pid, "VmRSS"), memoryMb(up.pid, "RssAnon")];
    await up.end();
    return [
      rowOf(`start/${name}-ready`, cold.ours, cold.bare + READY_MORE_MS, "<= 1", "ms"),
      rowOf(`start/${name}-cpu`, cpu.ours, cpu.bare, name === "binary" ? "<= 12" : "", "ms"),
      rowOf(`start/${name}-command`, command.ours, command.bare, `<= ${commandMax}`, "ms"),
      rowOf(`start/${name}-memory`, rss, RSS_MAX_MB, "<= 1", "MB"),
      rowOf(`start/${name}-anonymous`, anonymous, ANONYMOUS_MAX_MB, name === "binary" ? "<= 1" : "", "MB"),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export async function start(): Promise<Row[]> {
  const binary = at("dist/keyrack");
  if (!existsSync(binary)) console.error("dist/keyrack is not built: only the checkout is measured (npm run build)");
  return [
    ...(existsSync(binary) ? await measure("binary", binary, 4) : []),
    ...(await measure("checkout", at("bin/keyrack"), 5)),
  ];
}
