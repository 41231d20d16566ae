// PostgreSQL's own tools: pg_dump and psql/pg_restore, run as child processes. The trap: a password in an argument is
// there for every user of the machine to read, so it goes through the environment.
import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { fsyncFile } from "../../platform/fsync.ts";
import { readContents, type Contents } from "../offline/contents.ts";
import type { OnProgress } from "../progress.ts";
import { openSource, type Source } from "../offline/source.ts";

/** A tool that is missing, too old, or failed: the message says what to do. */
export class ToolRefused extends Error {
  readonly exitCode = 1;
}

/** Somebody else is at it already; nothing is wrong. */
export class BackupBusy extends ToolRefused {}

type Tool = "pg_dump" | "pg_restore" | "psql";
type Ran = { code: number | null; stdout: string; stderr: string };

const KEPT_CHARS = 4_000;
const SAYS_MAX = 300;

/** The address without its password, in either place that one may stand in, and the password. */
export function withoutPassword(url: string): { address: string; password: string } {
  const address = new URL(url);
  const password = address.searchParams.get("password") ?? decodeURIComponent(address.password);
  address.password = "";
  address.searchParams.delete("password");
  return { address: address.href, password };
}

/** The address without its password, and the password where only the tool sees it. */
export function connection(url: string): { dbname: string; env: NodeJS.ProcessEnv } {
  const { address, password } = withoutPassword(url);
  return { dbname: address, env: { ...process.env, ...(password && { PGPASSWORD: password }) } };
}

function run(tool: Tool, args: string[], env = process.env, signal?: AbortSignal): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(tool, args, { env, signal, stdio: ["ignore", "pipe", "pipe"] });
    const ran: Ran = { code: null, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (ran.stdout = (ran.stdout + chunk.toString()).slice(-KEPT_CHARS)));
    child.stderr.on("data", (chunk: Buffer) => (ran.stderr = (ran.stderr + chunk.toString()).slice(-KEPT_CHARS)));
    child.on("error", (error) => reject(signal?.aborted ? (signal.reason as Error) : missing(tool, error)));
    child.on("close", (code) => resolve({ ...ran, code }));
  });
}

export function missing(tool: Tool, error: NodeJS.ErrnoException): Error {
  if (error.code !== "ENOENT") return error;
  return new ToolRefused(`${tool} is not installed here. Install PostgreSQL's client programs (postgresql-client).`);
}

export function failed(tool: Tool, { code, stderr }: Ran): ToolRefused {
  const line = stderr.split("\n").find((each) => /error|fatal/i.test(each)) ?? stderr.trim().split("\n").at(-1) ?? "";
  return new ToolRefused(`${tool} failed${line ? `: ${line.slice(0, SAYS_MAX)}` : ` with ${code}`}`);
}

/** The version a tool tells, such as "15.19". */
export async function toolVersion(tool: Tool): Promise<string> {
  const ran = await run(tool, ["--version"]);
  const version = /(\d+(?:\.\d+)?)/.exec(ran.stdout)?.[1];
  if (ran.code !== 0 || !version) throw failed(tool, ran);
  return version;
}

/** A dump by an older pg_dump misses what it does not know, silently: refused. */
export function assertNotOlder(tool: Tool, version: string, server: number): void {
  const major = Math.trunc(Number(version));
  if (major < server)
    throw new ToolRefused(
      `${tool} is version ${version}, older than the PostgreSQL ${server} server. Install postgresql-client-${server}; until then no backup can be made.`,
    );
}

/** Dumps are made of the schema public and put back there; of tables elsewhere a dump would hold nothing. */
export async function assertPublic(source: Source): Promise<void> {
  const [at] = await source.all<{ name: string | null }>("select current_schema()::text as name", []);
  if (at?.name && at.name !== "public")
    throw new ToolRefused(
      `The tables are in the schema ${at.name}. Backup and restore know public alone: use pg_dump, or set the role's search_path to public.`,
    );
}

const LOCK = 1_263_682_380;

/** Dumps what one moment of the database holds, and answers the figures of that very moment. */
export async function dumpPostgres(url: string, to: string, tell: OnProgress): Promise<Contents> {
  const version = await toolVersion("pg_dump");
  const source = await openSource({ kind: "postgres", url, pool: 1 });
  try {
    const [server] = await source.all<{ major: number }>(
      "select current_setting('server_version_num')::int / 10000 as major",
      [],
    );
    assertNotOlder("pg_dump", version, server?.major ?? 0);
    await assertPublic(source);
    const [lock] = await source.all<{ free: boolean }>("select pg_try_advisory_lock($1) as free", [LOCK]);
    if (!lock?.free) throw new BackupBusy("Another process is making a backup of this database.");
    const [size] = await source.all<{ bytes: number }>("select pg_database_size(current_database()) as bytes", []);
    await source.begin();
    const [snapshot] = await source.all<{ id: string }>("select pg_export_snapshot() as id", []);
    const contents = await readContents(source);
    const timer = setInterval(() => {
      const done = statSync(to, { throwIfNoEntry: false })?.size ?? 0;
      tell({ step: "dump", done: Math.min(done, size?.bytes ?? 0), total: size?.bytes ?? 0 });
    }, 200);
    try {
      await dump(url, to, snapshot?.id ?? "", tell.signal);
    } finally {
      clearInterval(timer);
    }
    await source.commit();
    return contents;
  } finally {
    await source.close();
  }
}

async function dump(url: string, to: string, snapshot: string, signal?: AbortSignal): Promise<void> {
  const { dbname, env } = connection(url);
  const args = ["--format=custom", "--no-owner", "--no-privileges", "--schema=public", `--snapshot=${snapshot}`];
  const ran = await run("pg_dump", [...args, `--file=${to}`, `--dbname=${dbname}`], env, signal);
  if (ran.code !== 0) throw failed("pg_dump", ran);
  fsyncFile(to);
}

/** Whether a dump's table of contents can be read at all. */
export async function listDump(file: string): Promise<void> {
  const ran = await run("pg_restore", ["--list", file]);
  if (ran.code !== 0) throw failed("pg_restore", ran);
}
