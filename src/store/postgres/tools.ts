// PostgreSQL's client programs (pg_dump, pg_restore, psql) as child processes. Caution: every user of the machine can
// read the arguments of a process, so the password goes through the environment.
import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { ExitError } from "../../kernel/exit-error.ts";
import { fsyncAsync } from "../../platform/fsync.ts";
import { readContents, type Contents } from "../offline/contents.ts";
import type { OnProgress } from "../progress.ts";
import { withSource, type Source } from "../offline/source.ts";
import { withoutPassword } from "../target.ts";
import { BACKUP_LOCK } from "./advisory-locks.ts";

/** A client program is missing, too old or failed. The message says what to do. */
export class ToolRefused extends ExitError {
  /** The SQLSTATE that psql reported, if any. */
  code?: string;
  constructor(message: string) {
    super(message, 1);
  }
}

/** pg_restore read the dump and rejected it. */
export class UnreadableDump extends ToolRefused {}

/** Another process is making a backup. Not a failure. */
export class BackupBusy extends ToolRefused {}

type Tool = "pg_dump" | "pg_restore" | "psql";
type ToolResult = { code: number | null; stdout: string; stderr: string };

const OUTPUT_MAX = 4_000;
const MESSAGE_MAX = 300;

/** The address for a program's arguments, and its environment with the password. */
export function toolConnection(url: string): { dbname: string; env: NodeJS.ProcessEnv } {
  const { address, password } = withoutPassword(url);
  return { dbname: address, env: { ...process.env, ...(password && { PGPASSWORD: password }) } };
}

function run(tool: Tool, args: string[], env = process.env, signal?: AbortSignal): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(tool, args, { env, signal, stdio: ["ignore", "pipe", "pipe"] });
    const ran: ToolResult = { code: null, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (ran.stdout = (ran.stdout + chunk.toString()).slice(-OUTPUT_MAX)));
    child.stderr.on("data", (chunk: Buffer) => (ran.stderr = (ran.stderr + chunk.toString()).slice(-OUTPUT_MAX)));
    child.on("error", (error) => reject(signal?.aborted ? (signal.reason as Error) : toolMissing(tool, error)));
    child.on("close", (code) => resolve({ ...ran, code }));
  });
}

export function toolMissing(tool: Tool, error: NodeJS.ErrnoException): Error {
  if (error.code !== "ENOENT") return error;
  return new ToolRefused(`${tool} is not installed. Install PostgreSQL's client programs (postgresql-client).`);
}

export function toolFailed(tool: Tool, { code, stderr }: Omit<ToolResult, "stdout">): ToolRefused {
  const line = stderr.split("\n").find((each) => /error|fatal/i.test(each)) ?? stderr.trim().split("\n").at(-1) ?? "";
  const message = `${tool} failed${line ? `: ${line.slice(0, MESSAGE_MAX)}` : ` with ${code}`}`;
  // Killed (without an exit code), or older than the pg_dump: neither says anything about the dump.
  const isAboutDump = tool === "pg_restore" && code !== null && !line.includes("unsupported version");
  return isAboutDump ? new UnreadableDump(message) : new ToolRefused(message);
}

/** Needs VERBOSITY=verbose, with which psql writes the SQLSTATE before the message. */
export function psqlFailed(code: number | null, stderr: string): ToolRefused {
  const sqlstate = /: {2}([0-9A-Z]{5}): /.exec(stderr)?.[1];
  return Object.assign(toolFailed("psql", { code, stderr }), sqlstate && { code: sqlstate });
}

/** A program's version, such as "15.19". */
export async function toolVersion(tool: Tool): Promise<string> {
  const ran = await run(tool, ["--version"]);
  const version = /(\d+(?:\.\d+)?)/.exec(ran.stdout)?.[1];
  if (ran.code !== 0 || !version) throw toolFailed(tool, ran);
  return version;
}

/** An older pg_dump silently omits what it does not know. */
function assertNotOlder(tool: Tool, version: string, server: number): void {
  const major = Math.trunc(Number(version));
  if (major < server)
    throw new ToolRefused(
      `${tool} is version ${version}, older than the PostgreSQL ${server} server. Install postgresql-client-${server}; until then no backup can be made.`,
    );
}

/** Dumps contain the schema public only: one of tables elsewhere would be empty. */
export async function assertPublicSchema(source: Source): Promise<void> {
  const [at] = await source.all<{ name: string | null }>("select current_schema()::text as name", []);
  if (at?.name && at.name !== "public")
    throw new ToolRefused(
      `The tables are in the schema ${at.name}. Backup and restore support only public: use pg_dump, or set the role's search_path to public.`,
    );
}

type Dump = { tool: string; contents: Contents };

/** Dumps one snapshot of the database. Returns the version of pg_dump and the contents of that same snapshot. */
export async function dumpPostgres(url: string, to: string, onProgress: OnProgress): Promise<Dump> {
  const version = await toolVersion("pg_dump");
  return withSource({ kind: "postgres", url, pool: 1 }, async (source) => {
    const [server] = await source.all<{ major: number }>(
      "select current_setting('server_version_num')::int / 10000 as major",
      [],
    );
    assertNotOlder("pg_dump", version, server?.major ?? 0);
    await assertPublicSchema(source);
    const [lock] = await source.all<{ free: boolean }>("select pg_try_advisory_lock($1) as free", [BACKUP_LOCK]);
    if (!lock?.free) throw new BackupBusy("Another process is making a backup of this database.");
    const [size] = await source.all<{ bytes: number }>("select pg_database_size(current_database()) as bytes", []);
    await source.begin();
    const [snapshot] = await source.all<{ id: string }>("select pg_export_snapshot() as id", []);
    const contents = await readContents(source);
    const timer = setInterval(() => {
      const done = statSync(to, { throwIfNoEntry: false })?.size ?? 0;
      onProgress({ step: "dump", done: Math.min(done, size?.bytes ?? 0), total: size?.bytes ?? 0 });
    }, 200);
    try {
      await dump(url, to, snapshot?.id ?? "", onProgress.signal);
    } finally {
      clearInterval(timer);
    }
    await source.commit();
    return { tool: version, contents };
  });
}

async function dump(url: string, to: string, snapshot: string, signal?: AbortSignal): Promise<void> {
  const { dbname, env } = toolConnection(url);
  const args = ["--format=custom", "--no-owner", "--no-privileges", "--schema=public", `--snapshot=${snapshot}`];
  const ran = await run("pg_dump", [...args, `--file=${to}`, `--dbname=${dbname}`], env, signal);
  if (ran.code !== 0) throw toolFailed("pg_dump", ran);
  await fsyncAsync(to);
}

/** Throws if the dump's table of contents cannot be read. */
export async function assertReadableDump(file: string): Promise<void> {
  const ran = await run("pg_restore", ["--list", file]);
  if (ran.code !== 0) throw toolFailed("pg_restore", ran);
}
