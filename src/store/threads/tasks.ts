// The tasks of the worker threads: verifying an audit chain, reading usage series and long lists, copying a SQLite
// file, checking a whole database.
import { fsyncFile } from "../../platform/fsync.ts";
import { listChains } from "../audit/chains.ts";
import { checkIntegrity } from "../offline/integrity.ts";
import { connectSqlite } from "../sqlite/open.ts";
import { expectedCheckpoints, readContents, type Contents } from "../offline/contents.ts";
import type { Query } from "../engine/tx.ts";
import type { DatabaseTarget } from "../target.ts";
import type { Step } from "../progress.ts";
import { readSeries, type SeriesQuery } from "../usage/series.ts";
import { withSource, type Source } from "../offline/source.ts";
import { withKeptSource } from "./kept-source.ts";
import { exportPart, type ExportQuery } from "../usage/export.ts";
import { verifySlice, verifyStoredChain, type ChainSlice, type SliceOptions } from "../audit/verify.ts";

export type Inspection = {
  contents: Contents;
  /** Descriptions of everything wrong; empty if nothing is. */
  findings: string[];
  chains: number;
  audit_rows: number;
};

export type Task =
  | { op: "verify"; target: DatabaseTarget; workspace_id: string; options: SliceOptions; maxMs: number }
  | { op: "series"; target: DatabaseTarget; query: SeriesQuery }
  | { op: "export"; target: DatabaseTarget; query: ExportQuery }
  | { op: "read"; target: DatabaseTarget; query: Query }
  | { op: "copy"; file: string; to: string }
  | { op: "inspect"; target: DatabaseTarget }
  | { op: "quick"; file: string };

/** Any number of progress reports, then one value or error. */
export type TaskReply = {
  progress?: Step;
  value?: unknown;
  error?: { message: string; code?: string | undefined };
};

function verify({ target, workspace_id, options, maxMs }: Task & { op: "verify" }): Promise<ChainSlice> {
  return withKeptSource(target, (source) => verifySlice(source, workspace_id, options, maxMs));
}

/** A compiled statement has no other values. */
function readRows(source: Source, { sql, values }: Query): Promise<unknown[]> {
  return source.all(sql, values as readonly (string | number)[]);
}

/** A consistent copy without deleted content. VACUUM INTO does not sync, so this does. */
function copy(file: string, to: string): void {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  try {
    db.pragma("mmap_size=0");
    db.pragma("trusted_schema=OFF");
    db.prepare("vacuum into ?").run(to);
  } finally {
    db.close();
  }
  fsyncFile(to);
}

async function inspect(source: Source, onProgress: (step: Step) => void): Promise<Inspection> {
  onProgress({ step: "integrity", done: 0, total: 1 });
  const findings = await checkIntegrity(source);
  const contents = await readContents(source);
  const chains = await listChains(source);
  let audit_rows = 0;
  for (const [done, { workspace_id }] of chains.entries()) {
    onProgress({ step: "audit chains", done, total: chains.length });
    const check = await verifyStoredChain(source, workspace_id, await expectedCheckpoints(source, workspace_id));
    audit_rows += check.checked;
    if (check.reason)
      findings.push(`audit chain ${workspace_id} is broken at seq ${check.broken_seq}: ${check.reason}`);
  }
  return { contents, findings, chains: chains.length, audit_rows };
}

function quickCheck(file: string): string[] {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  try {
    const rows = db.pragma("quick_check(20)") as { quick_check: string }[];
    return rows.map((row) => row.quick_check.replaceAll("\n", " ")).filter((text) => text !== "ok");
  } finally {
    db.close();
  }
}

export async function runTask(task: Task, onProgress: (step: Step) => void): Promise<unknown> {
  if (task.op === "verify") return verify(task);
  if (task.op === "series") return withKeptSource(task.target, (source) => readSeries(source, task.query));
  if (task.op === "export") return withKeptSource(task.target, (source) => exportPart(source, task.query));
  if (task.op === "read") return withSource(task.target, (source) => readRows(source, task.query));
  if (task.op === "quick") return quickCheck(task.file);
  if (task.op === "copy") return copy(task.file, task.to);
  return withSource(task.target, (source) => inspect(source, onProgress));
}
