// Changes the rollups of the usage series: what a fold adds to each row is summed first, so that each is read and
// written once.
import { ABOVE_CAP } from "../../kernel/usage/groups.ts";
import { chunked } from "../../kernel/chunks.ts";
import { addToPart, decodeParts, encodeParts, type Parts, type Sums } from "../../kernel/usage/sums.ts";
import type { LoopShare } from "../../platform/event-loop.ts";
import type { Tx } from "../../store/engine/tx.ts";
import {
  findGroups,
  findRollups,
  insertGroups,
  lastGroupId,
  writeRollups,
  type RollupKey,
} from "../../store/queries/series.ts";
import type { UsageGroup, UsageRollupRow } from "../../store/schema/tables.ts";
import type { Caps } from "./caps.ts";
import { groupKey, HOUR_MINUTES, type HourPart } from "./groups.ts";

const QUARTER_MINUTES = 15;
/** Rows that one statement reads or writes. */
const ROWS_AT_ONCE = 64;

export const GRAIN = { minute: 1, hour: 2, day: 3 } as const;

type ChangedRollup = RollupKey & { outcome: string; parts: Parts };

/** The rows that one fold changes. */
export class Rollups {
  readonly #tx: Tx;
  readonly #loop: LoopShare;
  readonly #ids = new Map<string, number>();
  readonly #groups = new Map<number, UsageGroup>();
  readonly #pending = new Map<string, ChangedRollup>();
  readonly #stored = new Map<string, UsageRollupRow>();
  /** group, grain and start of the stored rows. */
  readonly #known = new Set<string>();

  constructor(tx: Tx, loop: LoopShare) {
    this.#tx = tx;
    this.#loop = loop;
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

  /** An hour that is no longer kept must not begin again: the push would send it under the id of the first. */
  addPart(
    { group, hour, outcomes }: HourPart,
    { minutesFrom, hoursFrom }: { minutesFrom: number; hoursFrom: number },
  ): void {
    const group_id = this.#ids.get(groupKey(group)) as number;
    for (const [outcome, minutes] of outcomes)
      for (const [minute, sums] of minutes) {
        const inHour = minute % HOUR_MINUTES;
        if (minute >= minutesFrom) this.#add({ group_id, grain: GRAIN.minute, start: hour, outcome }, inHour, sums);
        const quarter = Math.floor(inHour / QUARTER_MINUTES);
        if (hour >= hoursFrom) this.#add({ group_id, grain: GRAIN.hour, start: hour, outcome }, quarter, sums);
        this.#add({ group_id, grain: GRAIN.day, start: Math.floor(hour / 24), outcome }, 0, sums);
      }
  }

  #add(key: RollupKey & { outcome: string }, part: number, sums: Sums): void {
    const id = rowKey(key);
    let pending = this.#pending.get(id);
    if (!pending) this.#pending.set(id, (pending = { ...key, parts: new Map() }));
    addToPart(pending.parts, part, sums);
  }

  /** Reads what is stored of the rows that change. */
  async load(): Promise<void> {
    const keys = new Map<string, RollupKey>();
    for (const pending of this.#pending.values()) keys.set(startKey(pending), pending);
    const wanted = [...keys].filter(([id]) => !this.#known.has(id)).map(([, key]) => key);
    for (const some of chunked(wanted, ROWS_AT_ONCE)) {
      for (const row of await findRollups(this.#tx, some)) {
        this.#stored.set(rowKey(row), row);
        this.#known.add(startKey(row));
      }
      await this.#loop.yieldIfDue();
    }
  }

  /** Above the cap of an hour, the minutes and hours of further keys are kept together; their days are not. */
  async moveKeys(caps: Caps): Promise<void> {
    const moved: [UsageGroup, ChangedRollup][] = [];
    const checked = new Map<string, boolean>();
    for (const [id, pending] of this.#pending) {
      const group = this.#groups.get(pending.group_id) as UsageGroup;
      if (group.kind !== "key" || group.name === ABOVE_CAP || pending.grain === GRAIN.day) continue;
      const hour = { ...pending, grain: GRAIN.hour };
      const isNew = !this.#known.has(startKey(hour));
      const key = startKey(hour);
      if (!checked.has(key)) checked.set(key, !isNew || (await caps.admitKey(group, pending.start)));
      if (checked.get(key)) continue;
      this.#pending.delete(id);
      moved.push([{ ...group, name: ABOVE_CAP }, pending]);
    }
    if (moved.length === 0) return;
    await this.resolve(moved.map(([group]) => group));
    for (const [group, { grain, start, outcome, parts }] of moved) {
      const group_id = this.#ids.get(groupKey(group)) as number;
      for (const [part, sums] of parts) this.#add({ group_id, grain, start, outcome }, part, sums);
    }
    await this.load();
  }

  async write(): Promise<void> {
    for (const some of chunked([...this.#pending.values()], ROWS_AT_ONCE)) {
      const rows = some.map((each) => this.#row(each));
      await writeRollups(this.#tx, rows);
      await this.#loop.yieldIfDue();
    }
  }

  #row({ group_id, grain, start, outcome, parts }: ChangedRollup): UsageRollupRow {
    const stored = this.#stored.get(rowKey({ group_id, grain, start, outcome }));
    const total = { requests: stored?.requests ?? 0, errors: stored?.errors ?? 0, units: stored?.units ?? 0 };
    let timed = false;
    for (const sums of parts.values()) {
      total.requests += sums.requests;
      total.errors += sums.errors;
      total.units += sums.units;
      timed ||= sums.bins !== undefined;
    }
    // The columns of a day without a histogram say it all.
    const needsDetail = grain !== GRAIN.day || timed;
    if (stored && stored.detail !== "")
      for (const [part, sums] of decodeParts(stored.detail)) addToPart(parts, part, sums);
    return { group_id, grain, start, outcome, ...total, detail: needsDetail ? encodeParts(parts) : "" };
  }
}

function startKey({ group_id, grain, start }: RollupKey): string {
  return `${group_id} ${grain} ${start}`;
}

function rowKey({ outcome, ...key }: RollupKey & { outcome: string }): string {
  return `${startKey(key)} ${outcome}`;
}
