// A bulk run: counts what matches, asks, then changes page after page. `keyrack-bulk-ID.json` notes the position after
// each page, and a page of new keys is on disk before that. So a killed run continues where it stopped: the
// Idempotency-Key of the page gives a lost answer back, with the same keys, for 24 hours.
import { readFileSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import type { RouteOutput } from "../../../client.ts";
import type { Env } from "../../../kernel/credentials.ts";
import { csvRow } from "../../../kernel/text/csv.ts";
import { writeFileAtomically } from "../../../platform/fsync.ts";
import { ApiError, type Target } from "../../api/request.ts";
import { requireBearer, resolveTarget } from "../../api/target.ts";
import { ExitError, fileError, isTerminal, plural, table } from "../../ui/output.ts";
import { createProgressBar } from "../../ui/progress.ts";
import { sendUntilDone } from "../csv-import/retry.ts";
import { openAppend } from "../csv-import/append-file.ts";
import { printerBeside } from "../csv-import/inherited.ts";
import type { BulkAction } from "../../../kernel/bulk-actions.ts";
import { bodyOf, flagOf, KEYS_MAX, type BulkBody, type KeyBulkOptions } from "./bulk-flags.ts";
import { awaitVersions, type Versions } from "./bulk-wait.ts";
import { MINUTE_MS } from "../../../kernel/durations.ts";

type BulkPage = RouteOutput<"POST /v1/bulk/keys">;
type Key = BulkPage["data"][number];

/** What the progress file holds. */
type Run = {
  url: string;
  action: BulkAction;
  body: BulkBody;
  bulk_id: string;
  expect: number;
  cursor: string | null;
  /** Calls that are done; numbers the Idempotency-Key of the next. */
  calls: number;
  changed: number;
  out: string | null;
  versions: Versions;
};

const DONE = {
  revoke: "Revoked",
  disable: "Disabled",
  enable: "Enabled",
  rotate: "Rotated",
  cap_expiry: "Capped the expiry of",
} as const;
const ASKED: Record<BulkAction, string> = {
  revoke: "Revoke",
  disable: "Disable",
  enable: "Enable",
  rotate: "Rotate",
  cap_expiry: "Cap the expiry of",
};
const KEY_COLUMNS = ["id", "successor_id", "key", "project_id", "tenant_id", "env", "name"] as const;
const CALL_MS = MINUTE_MS;

function send(target: Target, body: object, idempotencyKey?: string): Promise<BulkPage> {
  const message = { method: "POST", path: "/v1/bulk/keys", body, idempotencyKey, timeoutMs: CALL_MS };
  return sendUntilDone<BulkPage>(target, message, flagOf);
}

/** `print`: where results go, which is not the file of new keys. */
type RunOptions = KeyBulkOptions & { print(text: string): void };

type Matches = { bulk_id: string; total: number; groups: Map<string, number> };

/** Walks everything without changing it. */
async function findMatches(target: Target, action: BulkAction, body: BulkBody): Promise<Matches> {
  const groups = new Map<string, number>();
  let bulk_id: string | undefined;
  let total = 0;
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = { ...body, action, dry_run: true, limit: KEYS_MAX, ...(cursor && { cursor }) };
    const answer = await send(target, page);
    bulk_id ??= answer.bulk_id;
    for (const { project_id, env } of answer.data) {
      const group = `${project_id} ${env}`;
      groups.set(group, (groups.get(group) ?? 0) + 1);
    }
    total += answer.data.length;
    cursor = answer.next_cursor;
  }
  return { bulk_id: bulk_id ?? "", total, groups };
}

function matchesTable({ groups }: Matches): string {
  const sorted = [...groups].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const rows = sorted.map(([group, keys]) => [...group.split(" "), String(keys)]);
  return table([["PROJECT", "ENV", "KEYS"], ...rows]);
}

/** Where a run is saved: the file that it continues from, which may be in another folder. */
const progressFile = ({ bulk_id }: Run, { resume }: KeyBulkOptions): string => resume ?? `keyrack-bulk-${bulk_id}.json`;

function save(file: string, run: Run): void {
  try {
    writeFileAtomically(file, `${JSON.stringify(run)}\n`);
  } catch (error) {
    throw fileError("write", file, error);
  }
}

function load(file: string, action: BulkAction, options: KeyBulkOptions): Run {
  const { filter, ...fields } = bodyOf(options);
  if (Object.keys(filter).length > 0 || Object.keys(fields).length > 0)
    throw new ExitError("--resume reads the filter from the file. Leave the other flags out.", 2);
  let run: Run;
  try {
    run = JSON.parse(readFileSync(file, "utf8")) as Run;
  } catch (error) {
    throw error instanceof SyntaxError
      ? new ExitError(`${file} is not a progress file.`, 2)
      : fileError("read", file, error);
  }
  if (run.action !== action)
    throw new ExitError(
      `${file} belongs to a run of ${run.action}. Use: keyrack key bulk ${run.action} --resume ${file}`,
      2,
    );
  return run;
}

/** Null if there is nothing to do. */
async function begin(target: Target, action: BulkAction, options: RunOptions): Promise<Run | null> {
  const body = bodyOf(options);
  if (action === "rotate" && !options.out && !options.dryRun)
    throw new ExitError("rotate needs --out FILE: the new keys are shown only once.", 2);
  if (!options.dryRun && !options.yes && !isTerminal())
    throw new ExitError("Nothing was changed. Add --yes to change keys without confirmation, or --dry-run.", 2);
  const matches = await findMatches(target, action, body);
  const { bulk_id, total } = matches;
  const isShown = !options.json && !options.quiet;
  if (isShown && total > 0) options.print(matchesTable(matches));
  if (options.dryRun || total === 0) {
    report(options, { action, bulk_id, matched: total, changed: 0, out: null });
    if (isShown) options.print(`${plural(total, "key")} would be changed.`);
    return null;
  }
  if (!options.yes) {
    const { askYesNo } = await import("../../ui/prompts.ts");
    if (!(await askYesNo(`${ASKED[action]} ${plural(total, "key")}?`, false)))
      throw new ExitError("Nothing was changed.", 2);
  }
  const out = options.out ? resolve(options.out) : null;
  const run = { url: target.url, action, body, bulk_id, expect: total, cursor: null, calls: 0, changed: 0, out };
  return { ...run, versions: {} };
}

type Report = { action: BulkAction; bulk_id: string; matched: number; changed: number; out: string | null };

function report(options: RunOptions, result: Report & { propagation?: unknown }): void {
  if (options.json) options.print(JSON.stringify({ object: "bulk", ...result }));
  else if (options.quiet) options.print(String(options.dryRun ? result.matched : result.changed));
}

/** Appends the keys of a page that are not in the file yet. */
function openKeys(file: string | null): { append(keys: readonly Key[]): void; close(): void } {
  if (!file) return { append: () => {}, close: () => {} };
  const log = openAppend(file, "named");
  if (log.lines.length === 0) log.append(`${csvRow(KEY_COLUMNS)}\n`);
  const known = new Set(log.lines.map((line) => line.split(",")[1]));
  return {
    append(keys) {
      const lines = keys
        .filter(({ successor_id }) => !successor_id || !known.has(successor_id))
        .map((key) => `${csvRow(KEY_COLUMNS.map((name) => key[name] ?? null))}\n`);
      if (lines.length > 0) log.append(lines.join(""));
    },
    close: () => log.close(),
  };
}

async function changeAll(target: Target, run: Run, options: KeyBulkOptions): Promise<void> {
  const file = progressFile(run, options);
  const keys = openKeys(run.out);
  const progress = createProgressBar(run.expect, "keys");
  try {
    save(file, run);
    do {
      const { action, body, bulk_id, cursor, expect, calls } = run;
      const position = cursor === null ? { expect } : { cursor };
      const answer = await send(target, { action, ...body, bulk_id, ...position }, `${bulk_id}-${calls}`);
      keys.append(answer.data); // before the position: a key of a page that counts as done would be lost
      for (const { project_id, version } of answer.versions) run.versions[project_id] = version;
      run.cursor = answer.next_cursor;
      run.calls++;
      run.changed += answer.changed;
      if (run.cursor !== null) save(file, run);
      progress.update(run.changed);
    } while (run.cursor !== null);
    rmSync(file, { force: true });
  } catch (error) {
    throw interrupted(run, error, file, !options.resume);
  } finally {
    progress.end();
    keys.close();
  }
}

/**
 * Whether the server has certainly done nothing. Not after 409: an earlier attempt of the same call may be under way.
 */
function isRefused(error: ExitError): boolean {
  return error instanceof ApiError && error.status < 500 && error.status !== 409;
}

/** The file stays wherever a call may have been carried out: it is the only way to the keys of a lost response. */
function interrupted(run: Run, error: unknown, file: string, isNew: boolean): unknown {
  if (!(error instanceof ExitError)) return error;
  if (isNew && run.calls === 0 && isRefused(error)) {
    rmSync(file, { force: true });
    return error;
  }
  const soFar = `${run.changed} of ${plural(run.expect, "key")} changed.`;
  const command = `keyrack key bulk ${run.action} --resume ${file}`;
  return new ExitError(`${error.message} ${soFar} Continue with: ${command}`, error.exitCode);
}

/** Begins the message of a run whose changes some nodes do not have yet. */
export const UNCONFIRMED = "The keys were changed, but not yet confirmed by";

export async function runKeyBulk(action: BulkAction, flags: KeyBulkOptions): Promise<void> {
  const saved = flags.resume ? load(flags.resume, action, flags) : null;
  const out = saved ? saved.out : flags.dryRun ? null : flags.out;
  const options = { ...flags, print: printerBeside(out) };
  const target = requireBearer(resolveTarget(saved ? { ...options, url: options.url ?? saved.url } : options));
  const run = saved ?? (await begin(target, action, options));
  if (!run) return;
  await changeAll(target, run, options);
  if (!options.json && !options.quiet) {
    const keys = run.out ? ` The new keys are in ${run.out}.` : "";
    options.print(`${DONE[action]} ${plural(run.changed, "key")}.${keys}`);
  }
  const env = run.body.filter.env as Env | undefined;
  const waited = options.wait ? await awaitVersions(target, run.versions, env, options) : null;
  const { bulk_id, expect, changed } = run;
  report(options, {
    action,
    bulk_id,
    matched: expect,
    changed,
    out: run.out,
    ...(waited && { propagation: waited.all }),
  });
  if (waited && waited.missing.length > 0) throw new ExitError(`${UNCONFIRMED}: ${waited.missing.join(", ")}.`, 1);
}
