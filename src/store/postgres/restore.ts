// Restores a pg_dump: pg_restore feeds psql, which runs everything in one transaction, so a database holds either the
// old tables or the restored ones. The old tables are kept in a schema of their own.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { listTables } from "../offline/contents.ts";
import { withSource } from "../offline/source.ts";
import { FACTS_OF_MASTER_KEY } from "../master-key-facts.ts";
import type { OnProgress } from "../progress.ts";
import type { PostgresTarget } from "../target.ts";
import { LEADER_LOCK } from "./advisory-locks.ts";
import { withPostgres } from "./client.ts";
import { IS_KEYRACK } from "./connected-versions.ts";
import { assertPublicSchema, psqlFailed, toolConnection, toolFailed, toolMissing, ToolRefused } from "./tools.ts";

export function hasTables(target: PostgresTarget): Promise<boolean> {
  return withSource(target, async (source) => {
    await assertPublicSchema(source);
    return (await listTables(source)).length > 0;
  });
}

/**
 * Detects a running server, on any machine, by its application name, or by the leader's lock where the URL sets another
 * application name or the role may not see other sessions.
 */
export async function assertNotInUse(target: PostgresTarget): Promise<void> {
  await withSource(target, async (source) => {
    const [row] = await source.all<{ n: number }>(
      `select (select count(*) from pg_stat_activity where ${IS_KEYRACK})
            + (select count(*) from pg_locks l join pg_database d on d.oid = l.database
                where d.datname = current_database() and l.locktype = 'advisory' and l.granted
                  and l.classid = $1 and l.objid = $2 and l.objsubid = 2) as n`,
      [...LEADER_LOCK],
    );
    if ((row?.n ?? 0) > 0) throw new ToolRefused("A Keyrack server is using this database. Stop it first.");
  });
}

type DumpIn = { folder: string; manifest: { file: string } };
type RestoreOptions = {
  /** The schema that the old tables move to; null if there are none. */
  replaced: string | null;
  /** SQL to run at the end of the same transaction. The search path is empty then. */
  after: string[];
  /** Called before the commit. If it throws, nothing is restored. */
  beforeCommit?: () => Promise<void>;
};

/** Marks the database so that the next start finishes the restore (backup/after-restore.ts). */
export function restorePendingSql(pending: string, forgetKey: boolean): string[] {
  return [
    `insert into public.deployment (name, value) values ('restore_pending', '${pending.replaceAll("'", "''")}')
       on conflict (name) do update set value = excluded.value`,
    ...(forgetKey ? [`delete from public.deployment where name in ('${FACTS_OF_MASTER_KEY.join("', '")}')`] : []),
  ];
}

/** The dump creates the schema, so the existing one is renamed, or dropped if it is empty. */
export async function restoreDump(
  url: string,
  dump: DumpIn,
  options: RestoreOptions,
  onProgress: OnProgress,
): Promise<void> {
  onProgress({ step: "restore", done: 0, total: 1 });
  const before = options.replaced
    ? `alter schema public rename to ${options.replaced}`
    : "drop schema if exists public restrict";
  await pipeDump(url, join(dump.folder, dump.manifest.file), before, options, onProgress.signal);
}

/** Restores the schema from before `restoreDump`. */
export async function undoRestore(url: string, replaced: string | null): Promise<void> {
  const back = replaced ? `alter schema ${replaced} rename to public` : "create schema public";
  await withPostgres(url, (client) => client.query(`begin; drop schema public cascade; ${back}; commit`));
}

/**
 * psql's input ends with `commit` only after pg_restore has succeeded. An input that ends before, as when this process
 * is killed, is rolled back; with --single-transaction psql would commit what it got.
 */
function pipeDump(
  url: string,
  file: string,
  before: string,
  { after, beforeCommit = async () => {} }: RestoreOptions,
  signal?: AbortSignal,
): Promise<void> {
  const { dbname, env } = toolConnection(url);
  const script = (list: string[]): string => list.map((each) => `${each};\n`).join("");
  const variables = ["-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"];
  const args = ["--no-psqlrc", "--quiet", ...variables, `--dbname=${dbname}`, "-f", "-"];
  return new Promise((resolve, reject) => {
    const psql = spawn("psql", args, { env, signal, stdio: ["pipe", "ignore", "pipe"] });
    const reader = spawn("pg_restore", ["--no-owner", "--no-privileges", "--no-comments", "-f", "-", file], {
      signal,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [psqlErrors, readerErrors] = ["", ""];
    psql.stderr.on("data", (chunk: Buffer) => (psqlErrors += chunk.toString()));
    reader.stderr.on("data", (chunk: Buffer) => (readerErrors += chunk.toString()));
    psql.on("error", (error) => reject(toolMissing("psql", error)));
    reader.on("error", (error) => abandon(toolMissing("pg_restore", error)));
    psql.stdin.on("error", () => {}); // psql has ended; its close event reports why
    psql.stdin.write(script(["begin", before]));
    reader.stdout.pipe(psql.stdin, { end: false });
    const abandon = (error: Error): void => {
      psql.kill();
      reject(error);
    };
    reader.on("close", (code) => {
      if (code === 0) void beforeCommit().then(() => psql.stdin.end(script([...after, "commit"])), abandon);
      else abandon(toolFailed("pg_restore", { code, stderr: readerErrors }));
    });
    psql.on("close", (code) => {
      reader.kill();
      if (code === 0) resolve();
      else reject(psqlFailed(code, psqlErrors));
    });
  });
}
