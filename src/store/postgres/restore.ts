// Puts a pg_dump back: everything in one transaction of psql, fed by pg_restore, so a database holds either the old
// tables or the restored ones. What was there is kept in a schema of its own.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { Client } from "pg";
import type { PostgresTarget } from "../target.ts";
import { listTables } from "../offline/contents.ts";
import type { OnProgress } from "../progress.ts";
import { assertPublic, connection, failed, missing, ToolRefused } from "./tools.ts";
import { LEADER_LOCK } from "./driver.ts";
import { openSource } from "../offline/source.ts";

export async function holdsTables(target: PostgresTarget): Promise<boolean> {
  const source = await openSource(target);
  try {
    await assertPublic(source);
    return (await listTables(source)).length > 0;
  } finally {
    await source.close();
  }
}

/** There is no lock file on a database that several machines may use: whoever is connected shows, by name or, where an
 * address gives another name or the role may not see it, by the leader's lock. */
export async function assertUnused(target: PostgresTarget): Promise<void> {
  const source = await openSource(target);
  try {
    const [row] = await source.all<{ n: number }>(
      `select (select count(*) from pg_stat_activity where datname = current_database() and application_name = $1)
            + (select count(*) from pg_locks l join pg_database d on d.oid = l.database
                where d.datname = current_database() and l.locktype = 'advisory' and l.granted
                  and l.classid = $2 and l.objid = $3 and l.objsubid = 2) as n`,
      ["keyrack", ...LEADER_LOCK],
    );
    if ((row?.n ?? 0) > 0)
      throw Object.assign(new ToolRefused("A Keyrack server is using this database. Stop it first."), { exitCode: 2 });
  } finally {
    await source.close();
  }
}

type DumpIn = { folder: string; manifest: { file: string } };
export type RestoreWords = {
  /** The schema that keeps what was there; null when nothing was. */
  replaced: string | null;
  /** Said in the same transaction, when everything is back. Nothing is on the search path then. */
  after: string[];
};

/** For a database that is to be used: it knows that its restore has to be finished (backup/after-restore.ts). */
export function pendingWords(pending: string, forgetKey: boolean): string[] {
  return [
    `insert into public.deployment (name, value) values ('restore_pending', '${pending.replaceAll("'", "''")}')
       on conflict (name) do update set value = excluded.value`,
    ...(forgetKey ? ["delete from public.deployment where name = 'master_key_fingerprint'"] : []),
  ];
}

/** The dump makes its schema itself, so the one that is there gives way. One that is not empty is never dropped. */
export async function restoreDump(url: string, dump: DumpIn, words: RestoreWords, tell: OnProgress): Promise<void> {
  tell({ step: "restore", done: 0, total: 1 });
  const before = words.replaced
    ? `alter schema public rename to ${words.replaced}`
    : "drop schema if exists public restrict";
  await feed(url, join(dump.folder, dump.manifest.file), [before], words.after, tell.signal);
}

/** Puts back what was there before `restoreDump`. */
export async function undoRestore(url: string, replaced: string | null): Promise<void> {
  const back = replaced ? `alter schema ${replaced} rename to public` : "create schema public";
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 3_000 });
  client.on("error", () => {}); // the query that needs the connection fails, and that is told
  await client.connect();
  try {
    await client.query(`begin; drop schema public cascade; ${back}; commit`);
  } finally {
    await client.end();
  }
}

/** psql's input ends only when pg_restore has ended well: a script that is cut short must not be committed. */
function feed(url: string, file: string, before: string[], after: string[], signal?: AbortSignal): Promise<void> {
  const { dbname, env } = connection(url);
  const words = (list: string[]): string[] => list.flatMap((each) => ["-c", each]);
  const args = ["--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "--single-transaction", `--dbname=${dbname}`];
  return new Promise((resolve, reject) => {
    const psql = spawn("psql", [...args, ...words(before), "-f", "-", ...words(after)], {
      env,
      signal,
      stdio: ["pipe", "ignore", "pipe"],
    });
    const reader = spawn("pg_restore", ["--no-owner", "--no-privileges", "--no-comments", "-f", "-", file], {
      signal,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [said, readerSaid] = ["", ""];
    psql.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    reader.stderr.on("data", (chunk: Buffer) => (readerSaid += chunk.toString()));
    psql.on("error", (error) => reject(missing("psql", error)));
    reader.on("error", (error) => {
      psql.kill();
      reject(missing("pg_restore", error));
    });
    psql.stdin.on("error", () => {}); // psql has ended, and says why by itself
    reader.stdout.pipe(psql.stdin, { end: false });
    reader.on("close", (code) => {
      if (code === 0) psql.stdin.end();
      else {
        psql.kill();
        reject(failed("pg_restore", { code, stdout: "", stderr: readerSaid }));
      }
    });
    psql.on("close", (code) => {
      reader.kill();
      if (code === 0) resolve();
      else reject(failed("psql", { code, stdout: "", stderr: said }));
    });
  });
}
