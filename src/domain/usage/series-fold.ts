// Adds the journal of counted batches to the rollups of the usage series. Rows are added and deleted in one transaction, so a
// crash neither repeats nor skips one. Decoding and summing happen before the transaction, in turns of the event loop.
import { addToSlot, decodeSlots, encodeSlots, type Slots, type Sums } from "../../kernel/usage/sums.ts";
import type { Tx } from "../../store/engine/statement.ts";
import {
  deleteJournal,
  findGroups,
  findRollups,
  insertGroups,
  journalRows,
  journalSizes,
  lastGroupId,
  lockRollups,
  nextJournalWorkspace,
  writeRollups,
  type RollupKey,
} from "../../store/queries/series.ts";
import { markHour } from "../../store/queries/metering.ts";
import type { UsageGroup, UsageJournalRow, UsageRollupRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { Caps } from "./series-caps.ts";
import { groupKey, HOUR_MINUTES, JournalSums, OTHER, type Part } from "./series-groups.ts";
import type { JournalData } from "./series-journal.ts";
import { Yields } from "./yields.ts";

/** Workspaces and rows of one turn. */
const WORKSPACES_MAX = 32;
const JOURNAL_ROWS_MAX = 200;
/** Of the journal, read at once unless a single row has more. */
const JOURNAL_BYTES_MAX = 1024 * 1024;
/** Rows changed by one transaction, besides those of its last journal row: every other writer waits for it. */
const ROLLUPS_MAX = 1_000;
const QUARTER_MINUTES = 15;

export const GRAIN = { minute: 1, hour: 2, day: 3 } as const;

/** Another process has added some of the same rows meanwhile: nothing was written here. */
class JournalMoved extends Error {}

/** Scheduled job. Ends when the journal is empty. */
export async function foldJournal(services: Services): Promise<void> {
  const yields = new Yields();
  for (let after = ""; ; ) {
    const turn = await nextTurn(services, after);
    if (turn.rows.length === 0 && after === "") return;
    after = turn.last;
    const rows = await decodeRows(turn.rows, yields);
    for (let done = 0; done < rows.length; ) {
      if (services.shutdown.signal.aborted) return;
      const sums = new JournalSums();
      const ids: string[] = [];
      while (done < rows.length && sums.rollups < ROLLUPS_MAX) {
        // A shard that is begun in one transaction and ended in the next one has its rollups written twice.
        if (sums.rollups > ROLLUPS_MAX / 2 && compareShards(rows[done - 1], rows[done]) !== 0) break;
        const { id, workspace_id, data } = rows[done++] as DecodedRow;
        sums.add(workspace_id, data);
        ids.push(id);
        await yields.ifDue();
      }
      try {
        await record(services, (tx) => fold(services, tx, { ids, sums, yields }));
      } catch (error) {
        if (error instanceof JournalMoved) return;
        throw error;
      }
    }
  }
}

type Turn = { rows: UsageJournalRow[]; last: string };

/** Rows of the workspaces behind `after`, a share of each: one that reports much does not delay the others. */
async function nextTurn({ store: { read } }: Services, after: string): Promise<Turn> {
  const workspaces: string[] = [];
  for (let id: string | undefined = after; id !== undefined && workspaces.length < WORKSPACES_MAX; ) {
    id = (await nextJournalWorkspace.first(read, { after: id }))?.id;
    if (id !== undefined) workspaces.push(id);
  }
  const share = Math.ceil(JOURNAL_ROWS_MAX / Math.max(1, workspaces.length));
  const turn: Turn = { rows: [], last: "" };
  let bytes = 0;
  for (const workspace_id of workspaces) {
    // Sizes first, because together the rows may not fit into memory.
    const sizes = await journalSizes.all(read, { workspace_id, limit: share });
    let count = 0;
    for (const each of sizes) {
      if (turn.rows.length + count > 0 && bytes + each.bytes > JOURNAL_BYTES_MAX) break;
      bytes += each.bytes;
      count++;
    }
    if (count === 0 && sizes.length > 0) break;
    turn.rows.push(...(await journalRows.all(read, { workspace_id, limit: count })));
    turn.last = workspace_id;
  }
  return turn;
}

type DecodedRow = Omit<UsageJournalRow, "data"> & { data: JournalData };

/** By workspace and shard: neighbours change the same rollups. bench: ingest/series */
async function decodeRows(rows: readonly UsageJournalRow[], yields: Yields): Promise<DecodedRow[]> {
  const decoded: DecodedRow[] = [];
  for (const row of rows) {
    decoded.push({ ...row, data: JSON.parse(row.data) as JournalData });
    await yields.ifDue();
  }
  return decoded.toSorted(compareShards);
}

function compareShards(a: DecodedRow | undefined, b: DecodedRow | undefined): number {
  if (!a || !b) return 0;
  if (a.workspace_id !== b.workspace_id) return a.workspace_id < b.workspace_id ? -1 : 1;
  return (a.data.shard ?? 0) - (b.data.shard ?? 0);
}

type Fold = { ids: string[]; sums: JournalSums; yields: Yields };

async function fold(services: Services, tx: Tx, { ids, sums, yields }: Fold): Promise<void> {
  await lockRollups.run(tx, { at: String(services.clock.now()) });
  if ((await deleteJournal(tx, ids)) !== ids.length) throw new JournalMoved();
  const caps = new Caps(services, tx);
  const parts: Part[] = [];
  for (const part of sums.parts()) {
    parts.push(await caps.apply(part));
    await yields.ifDue();
  }
  const rollups = new Rollups(tx, yields);
  await rollups.resolve(parts.map(({ group }) => group));
  const minutesFrom = Math.floor((services.clock.now() - services.settings.series_minutes) / 60_000);
  for (const part of parts) {
    rollups.addPart(part, minutesFrom);
    await yields.ifDue();
  }
  await rollups.load();
  await rollups.moveKeys(caps);
  await caps.save();
  await rollups.write();
  await markHours(tx, parts, services.clock.now());
}

/** The push looks at hours in which live tenants had requests. */
async function markHours(tx: Tx, parts: readonly Part[], now: number): Promise<void> {
  const hours = new Map<string, { hour: number; workspace_id: string }>();
  for (const { hour, group } of parts) {
    const { kind, env, tenant, workspace_id } = group;
    if (kind === "tenant" && env === "live" && tenant !== "")
      hours.set(`${hour} ${workspace_id}`, { hour, workspace_id });
  }
  for (const each of hours.values()) await markHour.run(tx, { ...each, now });
}

type Pending = RollupKey & { outcome: string; slots: Slots };

/** The rows that one fold changes. */
class Rollups {
  readonly #tx: Tx;
  readonly #yields: Yields;
  readonly #ids = new Map<string, number>();
  readonly #groups = new Map<number, UsageGroup>();
  readonly #pending = new Map<string, Pending>();
  readonly #stored = new Map<string, UsageRollupRow>();
  /** group, grain and start of the stored rows. */
  readonly #known = new Set<string>();

  constructor(tx: Tx, yields: Yields) {
    this.#tx = tx;
    this.#yields = yields;
  }

  /** Finds or creates the ids of the groups. */
  async resolve(groups: readonly UsageGroup[]): Promise<void> {
    const wanted = new Map(groups.map((group) => [groupKey(group), group]));
    const found = await findGroups(this.#tx, [...wanted.values()]);
    for (const row of found) this.#remember(row.id, row);
    let id = (await lastGroupId.first(this.#tx, {}))?.id ?? 0;
    const missing = [...wanted.values()].filter((group) => !this.#ids.has(groupKey(group)));
    const rows = missing.map(({ workspace_id, kind, project_id, env, tenant, name }) => {
      return { id: ++id, workspace_id, kind, project_id, env, tenant, name };
    });
    await insertGroups(this.#tx, rows);
    for (const row of rows) this.#remember(row.id, row);
  }

  #remember(id: number, group: UsageGroup): void {
    this.#ids.set(groupKey(group), id);
    this.#groups.set(id, group);
  }

  addPart({ group, hour, outcomes }: Part, minutesFrom: number): void {
    const group_id = this.#ids.get(groupKey(group)) as number;
    for (const [outcome, minutes] of outcomes)
      for (const [minute, sums] of minutes) {
        const inHour = minute % HOUR_MINUTES;
        if (minute >= minutesFrom) this.#add({ group_id, grain: GRAIN.minute, start: hour, outcome }, inHour, sums);
        const quarter = Math.floor(inHour / QUARTER_MINUTES);
        this.#add({ group_id, grain: GRAIN.hour, start: hour, outcome }, quarter, sums);
        this.#add({ group_id, grain: GRAIN.day, start: Math.floor(hour / 24), outcome }, 0, sums);
      }
  }

  #add(key: RollupKey & { outcome: string }, slot: number, sums: Sums): void {
    const id = rowKey(key);
    let pending = this.#pending.get(id);
    if (!pending) this.#pending.set(id, (pending = { ...key, slots: new Map() }));
    addToSlot(pending.slots, slot, sums);
  }

  /** Reads what is stored of the rows that change. */
  async load(): Promise<void> {
    const keys = new Map<string, RollupKey>();
    for (const pending of this.#pending.values()) keys.set(startKey(pending), pending);
    const wanted = [...keys].filter(([id]) => !this.#known.has(id)).map(([, key]) => key);
    for (let from = 0; from < wanted.length; from += 64) {
      for (const row of await findRollups(this.#tx, wanted.slice(from, from + 64))) {
        this.#stored.set(rowKey(row), row);
        this.#known.add(startKey(row));
      }
      await this.#yields.ifDue();
    }
  }

  /** Above the cap of an hour, the minutes and hours of further keys are kept together; their days are not. */
  async moveKeys(caps: Caps): Promise<void> {
    const moved: [UsageGroup, Pending][] = [];
    const checked = new Map<string, boolean>();
    for (const [id, pending] of this.#pending) {
      const group = this.#groups.get(pending.group_id) as UsageGroup;
      if (group.kind !== "key" || group.name === OTHER || pending.grain === GRAIN.day) continue;
      const hour = { ...pending, grain: GRAIN.hour };
      const isNew = !this.#known.has(startKey(hour));
      const key = startKey(hour);
      if (!checked.has(key)) checked.set(key, !isNew || (await caps.admitKey(group.workspace_id, pending.start)));
      if (checked.get(key)) continue;
      this.#pending.delete(id);
      moved.push([{ ...group, name: OTHER }, pending]);
    }
    if (moved.length === 0) return;
    await this.resolve(moved.map(([group]) => group));
    for (const [group, { grain, start, outcome, slots }] of moved) {
      const group_id = this.#ids.get(groupKey(group)) as number;
      for (const [slot, sums] of slots) this.#add({ group_id, grain, start, outcome }, slot, sums);
    }
    await this.load();
  }

  async write(): Promise<void> {
    const pending = [...this.#pending.values()];
    for (let from = 0; from < pending.length; from += 64) {
      await writeRollups(
        this.#tx,
        pending.slice(from, from + 64).map((each) => this.#row(each)),
      );
      await this.#yields.ifDue();
    }
  }

  #row({ group_id, grain, start, outcome, slots }: Pending): UsageRollupRow {
    const stored = this.#stored.get(rowKey({ group_id, grain, start, outcome }));
    const total = { requests: stored?.requests ?? 0, errors: stored?.errors ?? 0, units: stored?.units ?? 0 };
    let timed = false;
    for (const sums of slots.values()) {
      total.requests += sums.requests;
      total.errors += sums.errors;
      total.units += sums.units;
      timed ||= sums.bins !== undefined;
    }
    // The columns of a day without a histogram say it all.
    const needsDetail = grain !== GRAIN.day || timed;
    if (stored && stored.detail !== "")
      for (const [slot, sums] of decodeSlots(stored.detail)) addToSlot(slots, slot, sums);
    return { group_id, grain, start, outcome, ...total, detail: needsDetail ? encodeSlots(slots) : "" };
  }
}

function startKey({ group_id, grain, start }: RollupKey): string {
  return `${group_id} ${grain} ${start}`;
}

function rowKey({ outcome, ...key }: RollupKey & { outcome: string }): string {
  return `${startKey(key)} ${outcome}`;
}
