// Makes the parts of the push: what a tenant's hour has gained since its last part. A part is stored before it is sent.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  changedHourAfter,
  findMeteredHours,
  liveTenantGroups,
  markChecked,
  writeParts,
} from "../../store/queries/metering.ts";
import { findRollups, lockRollups } from "../../store/queries/series.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { MeteredHourRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { GRAIN } from "../series/rollups.ts";
import { dueBefore } from "./state.ts";

const GROUPS_AT_ONCE = 100;
/** Units, requests and errors. */
export const FIELDS = 3;

type Sums = readonly [units: number, requests: number, errors: number];
type Hour = { hour: number; workspace_id: string; changes: number };
type NewParts = Pick<MeteredHourRow, "hour" | "group_id" | "parts" | "sent">;

/** `part` counts from 1. */
export function sumsOfPart(parts: readonly number[], part: number): Sums {
  const from = (part - 1) * FIELDS;
  return [parts[from] ?? 0, parts[from + 1] ?? 0, parts[from + 2] ?? 0];
}

/** Walks the hours that have changed and are due: of each workspace in turn, its oldest. */
export class PartMaker {
  readonly #services: Services;
  #hour: Hour | undefined;
  #workspace = "";
  #after = { tenant: "", project_id: "" };

  constructor(services: Services) {
    this.#services = services;
  }

  /** Stores the next parts, a request's worth or a few more. Returns how many; 0: nothing is due. */
  async makeParts(): Promise<number> {
    const { store, clock, shutdown } = this.#services;
    let made = 0;
    while (made < GROUPS_AT_ONCE && !shutdown.signal.aborted) {
      const hour = (this.#hour ??= await this.#nextHour());
      if (!hour) break;
      const page = { workspace_id: hour.workspace_id, ...this.#after, limit: GROUPS_AT_ONCE };
      const groups = await liveTenantGroups.all(store.read, page);
      made += await this.#makePartsOf(
        hour.hour,
        groups.map(({ id }) => id),
      );
      await yieldToEventLoop(); // a workspace may have a million tenants, few of them with requests in this hour
      const last = groups.at(-1);
      if (last && groups.length === GROUPS_AT_ONCE) {
        this.#after = { tenant: last.tenant, project_id: last.project_id };
        continue;
      }
      await record(this.#services, (tx) => markChecked.run(tx, { ...hour, now: clock.now() }));
      this.#hour = undefined;
    }
    return made;
  }

  async #nextHour(): Promise<Hour | undefined> {
    const { store, clock, settings } = this.#services;
    const now = clock.now();
    this.#after = { tenant: "", project_id: "" };
    const due = { before: dueBefore(settings, now), changedBefore: now - settings.meter_settle };
    const next = (workspace_id: string) => changedHourAfter.first(store.read, { ...due, workspace_id });
    const hour = (await next(this.#workspace)) ?? (await next(""));
    this.#workspace = hour?.workspace_id ?? "";
    return hour;
  }

  /** Reads first without a transaction: most groups of an hour have nothing new. */
  async #makePartsOf(hour: number, groups: readonly number[]): Promise<number> {
    const { store, clock } = this.#services;
    const changed = await newParts(store.read, hour, groups);
    if (changed.length === 0) return 0;
    const ids = changed.map(({ group_id }) => group_id);
    return record(this.#services, async (tx) => {
      await lockRollups.run(tx, { at: String(clock.now()) });
      const parts = await newParts(tx, hour, ids);
      await writeParts(tx, parts);
      return parts.length;
    });
  }
}

type Total = { units: number; allowed: number; denied: number; errors: number };

/** The stored parts of each group with what they lack as one more. Sums of samples are rounded as in the export. */
async function newParts(on: Reader, hour: number, groups: readonly number[]): Promise<NewParts[]> {
  const keys = groups.map((group_id) => ({ group_id, grain: GRAIN.hour, start: hour }));
  const stored = new Map<number, number[]>();
  for (const { group_id, parts } of await findMeteredHours(on, hour, groups)) stored.set(group_id, JSON.parse(parts));
  const totals = new Map<number, Total>();
  for (const { group_id, outcome, requests, errors, units } of await findRollups(on, keys)) {
    const total = totals.get(group_id) ?? { units: 0, allowed: 0, denied: 0, errors: 0 };
    total[outcome === "allowed" ? "allowed" : "denied"] += requests;
    total.units += units;
    total.errors += errors;
    totals.set(group_id, total);
  }
  const found: NewParts[] = [];
  for (const [group_id, { units, allowed, denied, errors }] of totals) {
    const sums = [Math.round(units), Math.round(allowed) + Math.round(denied), Math.round(errors)];
    const parts = stored.get(group_id) ?? [];
    const added = sums.map((sum, field) => sum - sumOf(parts, field));
    if (added.every((value) => value === 0)) continue;
    const all = [...parts, ...added];
    found.push({ hour, group_id, parts: JSON.stringify(all), sent: all.length / FIELDS });
  }
  return found;
}

function sumOf(parts: readonly number[], field: number): number {
  let sum = 0;
  for (let i = field; i < parts.length; i += FIELDS) sum += parts[i] ?? 0;
  return sum;
}
