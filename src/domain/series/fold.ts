// Adds the journal of counted batches to the rollups of the usage series. Rows are added and deleted in one
// transaction, so a crash neither repeats nor skips one. Decoding and summing happen before the transaction, in turns
// of the event loop.
import { HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { Failure } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";
import { LoopShare } from "../../platform/event-loop.ts";
import type { Tx } from "../../store/engine/tx.ts";
import {
  deleteJournal,
  journalRows,
  journalSizes,
  lockRollups,
  nextJournalWorkspace,
} from "../../store/queries/series.ts";
import { markHour } from "../../store/queries/metering.ts";
import type { UsageJournalRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { Caps } from "./caps.ts";
import { JournalSums, type HourPart } from "./groups.ts";
import type { JournalData } from "./journal.ts";
import { Rollups } from "./rollups.ts";

/** Workspaces and rows of one batch. */
const WORKSPACES_MAX = 32;
const JOURNAL_ROWS_MAX = 200;
/** Bytes of the journal that are read at once, unless a single row has more. */
const JOURNAL_BYTES_MAX = MIB;
/** Rows changed by one transaction, besides those of its last journal row: every other writer waits for it. */
const ROLLUPS_MAX = 1_000;

/** Another process has added some of the same rows meanwhile: nothing was written here. */
class JournalMoved extends Error {}

/**
 * Scheduled job. Ends when the journal is empty. Rows that cannot be added stay in it and fail the job, but only after
 * the rows of every other workspace were added.
 */
export async function foldJournal(services: Services): Promise<void> {
  const run: FoldRun = { services, loop: new LoopShare(), failed: new Map() };
  const { failed } = run;
  for (let after = ""; ; ) {
    const batch = await nextBatch(services, after, failed);
    if (batch.rows.length === 0 && after === "") break;
    after = batch.last;
    if (!(await addRows(run, await decodeRows(batch.rows, run)))) return;
  }
  const [first] = failed;
  if (first)
    throw new Error(`${failed.size} workspaces have rows that cannot be added; ${first[0]}: ${String(first[1])}`);
}

/** `failed`: why rows of a workspace cannot be added. */
type FoldRun = { services: Services; loop: LoopShare; failed: Map<string, unknown> };

/** Rows that fail are added workspace by workspace, without the one that fails. Returns whether the job continues. */
async function addRows(run: FoldRun, rows: readonly DecodedRow[]): Promise<boolean> {
  const { services, loop, failed } = run;
  for (let left = rows; left.length > 0; ) {
    if (services.shutdown.signal.aborted) return false;
    try {
      const piece = await takePiece(left, loop);
      await record(services, (tx) => addPiece(services, tx, piece, loop));
      left = left.slice(piece.ids.length);
    } catch (error) {
      if (error instanceof JournalMoved) return false;
      if (error instanceof Failure) throw error; // of the storage, whatever the rows are
      const workspaces = Map.groupBy(left, ({ workspace_id }) => workspace_id);
      for (const [workspace_id, own] of workspaces) {
        if (workspaces.size === 1) failed.set(workspace_id, error);
        else if (!(await addRows(run, own))) return false;
      }
      return true;
    }
  }
  return true;
}

type Piece = { ids: string[]; sums: JournalSums };

/** The first rows, as many as one transaction adds. */
async function takePiece(rows: readonly DecodedRow[], loop: LoopShare): Promise<Piece> {
  const piece: Piece = { ids: [], sums: new JournalSums() };
  const { ids, sums } = piece;
  for (const [i, row] of rows.entries()) {
    if (sums.rollups >= ROLLUPS_MAX) break;
    // A shard that is begun in one transaction and ended in the next one has its rollups written twice.
    if (sums.rollups > ROLLUPS_MAX / 2 && compareShards(rows[i - 1], row) !== 0) break;
    sums.add(row.workspace_id, row.data);
    ids.push(row.id);
    await loop.yieldIfDue();
  }
  return piece;
}

type Batch = { rows: UsageJournalRow[]; last: string };

/** Rows of the workspaces behind `after`, a share of each: one that reports much does not delay the others. */
async function nextBatch(
  { store: { read } }: Services,
  after: string,
  skipped: ReadonlyMap<string, unknown>,
): Promise<Batch> {
  const workspaces: string[] = [];
  for (let id: string | undefined = after; id !== undefined && workspaces.length < WORKSPACES_MAX; ) {
    id = (await nextJournalWorkspace.first(read, { after: id }))?.id;
    if (id !== undefined && !skipped.has(id)) workspaces.push(id);
  }
  const share = Math.ceil(JOURNAL_ROWS_MAX / Math.max(1, workspaces.length));
  const batch: Batch = { rows: [], last: "" };
  let bytes = 0;
  for (const workspace_id of workspaces) {
    // Sizes first, because together the rows may not fit into memory.
    const sizes = await journalSizes.all(read, { workspace_id, limit: share });
    let count = 0;
    for (const each of sizes) {
      if (batch.rows.length + count > 0 && bytes + each.bytes > JOURNAL_BYTES_MAX) break;
      bytes += each.bytes;
      count++;
    }
    if (count === 0 && sizes.length > 0) break;
    batch.rows.push(...(await journalRows.all(read, { workspace_id, limit: count })));
    batch.last = workspace_id;
  }
  return batch;
}

type DecodedRow = Omit<UsageJournalRow, "data"> & { data: JournalData };

/** By workspace and shard: neighbours change the same rollups. bench: ingest/series */
async function decodeRows(rows: readonly UsageJournalRow[], { failed, loop }: FoldRun): Promise<DecodedRow[]> {
  const decoded: DecodedRow[] = [];
  for (const row of rows) {
    try {
      decoded.push({ ...row, data: JSON.parse(row.data) as JournalData });
    } catch (error) {
      failed.set(row.workspace_id, error);
    }
    await loop.yieldIfDue();
  }
  return decoded.toSorted(compareShards);
}

function compareShards(a: DecodedRow | undefined, b: DecodedRow | undefined): number {
  if (!a || !b) return 0;
  if (a.workspace_id !== b.workspace_id) return a.workspace_id < b.workspace_id ? -1 : 1;
  return a.data.shard - b.data.shard;
}

async function addPiece(services: Services, tx: Tx, { ids, sums }: Piece, loop: LoopShare): Promise<void> {
  await lockRollups.run(tx, { at: String(services.clock.now()) });
  if ((await deleteJournal(tx, ids)) !== ids.length) throw new JournalMoved();
  const caps = new Caps(services, tx);
  const parts: HourPart[] = [];
  for (const part of sums.parts()) {
    parts.push(await caps.apply(part));
    await loop.yieldIfDue();
  }
  const rollups = new Rollups(tx, loop);
  await rollups.resolve(parts.map(({ group }) => group));
  const { series_minutes, series_hours } = services.settings;
  const now = services.clock.now();
  const kept = {
    minutesFrom: Math.floor((now - series_minutes) / MINUTE_MS),
    hoursFrom: Math.floor((now - series_hours) / HOUR_MS),
  };
  for (const part of parts) {
    rollups.addPart(part, kept);
    await loop.yieldIfDue();
  }
  await rollups.load();
  await rollups.moveKeys(caps);
  await caps.save();
  await rollups.write();
  await markHours(
    tx,
    parts.filter(({ hour }) => hour >= kept.hoursFrom),
    now,
  );
}

/** The push looks at hours in which live tenants had requests. */
async function markHours(tx: Tx, parts: readonly HourPart[], now: number): Promise<void> {
  const hours = new Map<string, { hour: number; workspace_id: string }>();
  for (const { hour, group } of parts) {
    const { kind, env, tenant, workspace_id } = group;
    if (kind === "tenant" && env === "live" && tenant !== "")
      hours.set(`${hour} ${workspace_id}`, { hour, workspace_id });
  }
  for (const each of hours.values()) await markHour.run(tx, { ...each, now });
}
