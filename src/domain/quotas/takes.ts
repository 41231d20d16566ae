// The transactions on a balance. The database is the store of record: units are taken from it, durably, before the
// first of them is spent, so no crash forgets an admitted request. Caution: an error leaves open whether the
// transaction was committed. Units that may have been taken or given back are then lost to this process, never used
// twice.
import { DAY_MS } from "../../kernel/durations.ts";
import { allocate, blockSize, sumOf, type Part, type UnitSource } from "../../kernel/quotas/allocation.ts";
import { periodAfter, periodAt, type Period } from "../../kernel/quotas/period.ts";
import { calendarName, type Quota } from "../../kernel/quotas/quota.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { putReceipt, unitsOfReceipt } from "./receipts.ts";
import {
  giveBackToGrant,
  grantById,
  openGrants,
  takeFromGrant,
  type GrantedTo,
} from "../../store/queries/quota-grants.ts";
import {
  balanceAtOnce,
  heldByOthers,
  insertBalance,
  lockBalance,
  putHolding,
  updateBalance,
} from "../../store/queries/quotas.ts";
import type { BalanceKey, QuotaBalanceRow, QuotaGrantRow, QuotaHoldingRow } from "../../store/schema/tables.ts";
import type { Metered } from "./definitions.ts";

/** A grant can be voided, or spent through another calendar, while it is being taken from. */
const ATTEMPTS_MAX = 10;
/** A subject may have a thousand grants, and a process keeps many balances in memory. Later ones are read again. */
const EXPIRING_KEPT = 20;

/** Units that were used of the amount, and units of grants that were not. */
export type Usage = { readonly fromAmount: number; readonly granted: number };

/** The balance as the database has it after a transaction: what processes hold counts as used. */
export type Stored = Usage & {
  readonly period: Period;
  /** Units taken in this period from all sources. */
  readonly taken: number;
  /** The next grants that expire, the first one first. */
  readonly expiring: readonly UnitSource[];
  /** What other processes hold; null if it was not read. */
  readonly others: HeldUnits | null;
};

/** Units that can still be taken under this quota. */
export function availableOf({ fromAmount, granted }: Usage, { amount }: Quota): number {
  return Math.max(0, amount - fromAmount) + granted;
}

/** Units in blocks and in leases, and how many of them came from grants. */
type HeldUnits = { readonly unspent: number; readonly held: number; readonly granted: number };

const NONE_HELD: HeldUnits = { unspent: 0, held: 0, granted: 0 };

export function balanceKey({ subject_id, env, quota }: Metered): BalanceKey {
  return { subject_id, env, quota_id: quota.id, calendar: calendarName(quota) };
}

export function balanceName(metered: Metered): string {
  const key = balanceKey(metered);
  return grantsName(key) + key.calendar;
}

/** The start of the names of all balances that spend these grants. Ids are UUIDs and rule ids, without a slash. */
export function grantsName({ subject_id, env, quota_id }: GrantedTo): string {
  return `${subject_id}/${env}/${quota_id}/`;
}

/** `process_id`: of this process. Only a take depends on the amount and overage of the quota. */
type ReadRequest = { metered: Metered; process_id: string; now: number };
type BalanceRequest = ReadRequest & { workspace_id: string };

/** What a request that waits needs, and what it would use. */
export type Demand = { readonly units: number; readonly most: number };

export type TakeRequest = BalanceRequest & {
  /** What waiting requests ask for, the first one first; none: a block is taken. */
  demands: readonly Demand[];
  /** Units that they can spend already. */
  spendable: number;
};

type State = { row: QuotaBalanceRow; period: Period };

/** The row in the period of `now`: spent amounts of past periods do not count. */
function inPeriod(row: QuotaBalanceRow, quota: Quota, now: number): State {
  const period = periodAfter(quota, row.period_start, now);
  return {
    period,
    row: period.start === row.period_start ? row : { ...row, period_start: period.start, taken: 0, from_amount: 0 },
  };
}

type OpenGrant = Pick<QuotaGrantRow, "id" | "remaining" | "expires_at">;

function toSource({ id, remaining, expires_at }: OpenGrant): UnitSource {
  return { grant: id, left: remaining, end: expires_at ?? Number.POSITIVE_INFINITY };
}

async function grantsOf(on: Reader, { metered, now }: ReadRequest): Promise<UnitSource[]> {
  return (await openGrants.all(on, { ...balanceKey(metered), now })).map(toSource);
}

async function sourcesOf(on: Reader, request: ReadRequest, { row, period }: State): Promise<UnitSource[]> {
  const left = Math.max(0, request.metered.quota.amount - row.from_amount);
  return [{ grant: null, left, end: period.end }, ...(await grantsOf(on, request))];
}

const leftIn = (sources: readonly UnitSource[]): number => sources.reduce((total, { left }) => total + left, 0);

function storedOf({ row, period }: State, sources: readonly UnitSource[], others: HeldUnits | null): Stored {
  const grants = sources.filter(({ grant }) => grant !== null);
  const dated = grants.filter(({ end }) => end < Number.POSITIVE_INFINITY).toSorted((a, b) => a.end - b.end);
  const expiring = dated.slice(0, EXPIRING_KEPT);
  return { period, taken: row.taken, fromAmount: row.from_amount, granted: leftIn(grants), expiring, others };
}

function emptyBalance({ metered, now }: ReadRequest, workspace_id: string): QuotaBalanceRow {
  const period_start = periodAt(metered.quota, now).start;
  return { ...balanceKey(metered), workspace_id, period_start, taken: 0, from_amount: 0, used_at: now };
}

async function lockedBalance(tx: Tx, request: BalanceRequest) {
  const { quota } = request.metered;
  const key = balanceKey(request.metered);
  const found = await lockBalance.first(tx, key);
  if (found) return inPeriod(found, quota, request.now);
  const empty = emptyBalance(request, request.workspace_id);
  await insertBalance.run(tx, empty); // another process may have been first
  return inPeriod((await lockBalance.first(tx, key)) ?? empty, quota, request.now);
}

/** On SQLite there are no other processes. */
async function sumOthers(on: Reader, { metered, process_id, now }: ReadRequest, period: Period): Promise<HeldUnits> {
  if (on.dialect === "sqlite") return NONE_HELD;
  return sumHeld(await heldByOthers.all(on, { ...balanceKey(metered), process_id, now }), period);
}

/** Sums what others hold in the same period. */
function sumHeld(rows: readonly (HeldUnits & Pick<QuotaHoldingRow, "period_start">)[], period: Period): HeldUnits {
  return rows
    .filter((row) => row.period_start === period.start)
    .reduce((sum, row) => {
      return { unspent: sum.unspent + row.unspent, held: sum.held + row.held, granted: sum.granted + row.granted };
    }, NONE_HELD);
}

/** What a transaction takes, and the balance after it; null if it was not read. */
export type Written = { readonly parts: Part[]; readonly stored: Stored | null };
export type Taken = Written & { readonly stored: Stored };

/**
 * Takes a block, and beside it what requests wait for if that is more than a block: it is spent as soon as it is
 * durable, so that a crash costs no more than blocks and requests without a response. No parts: there are too few units
 * for any of them. bench: insight/lease-quota
 */
export async function takeUnits(tx: Tx, request: TakeRequest): Promise<Taken> {
  return takeFrom(tx, request, await lockedBalance(tx, request));
}

/** `owed`: units that were admitted without asking. Exactly these are taken, even beyond zero. */
async function takeFrom(tx: Tx, request: TakeRequest, at: State, owed = 0): Promise<Taken> {
  const { now } = request;
  const { quota } = request.metered;
  for (let attempt = 1; ; attempt++) {
    const sources = await sourcesOf(tx, request, at);
    const { units, isEnough } =
      owed > 0 ? { units: owed, isEnough: true } : unitsToTake(request, leftIn(sources), at.row.taken);
    const parts = units === 0 ? [] : allocate(units, sources);
    if (await takeFromGrants(tx, parts)) {
      const left = sources.map((source) => notBelowZero({ ...source, left: source.left - unitsOf(parts, source) }));
      const isExhausted = !isEnough || (quota.overage === "deny" && leftIn(left) === 0);
      const others = isExhausted ? await sumOthers(tx, request, at.period) : null;
      const row = { ...at.row, taken: at.row.taken + units, from_amount: at.row.from_amount + amountIn(parts) };
      if (units > 0) await updateBalance.run(tx, { ...row, used_at: now });
      return { parts, stored: storedOf({ ...at, row }, left, others) };
    }
    if (attempt === ATTEMPTS_MAX)
      throw new Error("the grants of a quota changed during every attempt to take from them");
  }
}

/**
 * Units that were admitted without asking. A caller without a response sends them again under the same id, with those
 * that were added since: only what was not charged under this id is charged.
 */
export type Owed = { readonly units: number; readonly id: string | null };
/** `storesId`: whether there is room for an id that is not known yet. */
export type OwedCharge = Owed & { readonly storesId: boolean };

/** Longer than the library uses an id (sdk/limits/owed.ts). */
const OWED_KEPT_MS = 8 * DAY_MS;

/**
 * What was charged under the id is stored with the charge. Without room for it the units are charged all the same, and
 * again if they are sent again: they were admitted, and ids must not fill the disk.
 */
export async function takeOwed(tx: Tx, request: BalanceRequest, { units, id, storesId }: OwedCharge): Promise<Stored> {
  const { now } = request;
  const { subject_id, env, quota } = request.metered;
  // Lock before reading what was charged: the same units may be arriving at another process.
  const at = await lockedBalance(tx, request);
  const charge = async (owed: number): Promise<Stored> =>
    (await takeFrom(tx, { ...request, demands: [], spendable: 0 }, at, owed)).stored;
  if (id === null) return charge(units);
  const receipt = { name: `quota owed\n${subject_id}/${env}/${quota.id}\n${id}`, now };
  const charged = await unitsOfReceipt(tx, receipt);
  const owed = units - (charged ?? 0);
  if (owed <= 0) return readBalance(tx, request);
  if (charged !== undefined || storesId) await putReceipt(tx, receipt, units, OWED_KEPT_MS);
  return charge(owed);
}

/** `isEnough`: for all requests that wait. */
function unitsToTake({ metered, demands, spendable }: TakeRequest, available: number, taken: number) {
  const { overage, amount } = metered.quota;
  const isReport = overage === "report";
  // Without a bound the block grows with what is used, so that a busy key does not wait for every request.
  const block = blockSize(isReport ? Math.max(available, amount, taken) : available);
  const left = isReport ? Number.POSITIVE_INFINITY : available + spendable;
  let [wanted, fitting] = [0, 0];
  for (const { units, most } of demands) {
    if (wanted + units > left) continue;
    wanted += Math.max(units, Math.min(most, block, left - wanted));
    fitting++;
  }
  const isEnough = fitting === demands.length;
  if (fitting === 0 && !isEnough) return { units: 0, isEnough };
  const missing = wanted - spendable;
  const units = missing > block ? missing + block : block;
  return { units: isReport ? units : Math.min(available, units), isEnough };
}

const unitsOf = (parts: readonly Part[], { grant }: UnitSource): number =>
  parts.find((part) => part.grant === grant)?.units ?? 0;
const amountIn = (parts: readonly Part[]): number => parts.find(({ grant }) => grant === null)?.units ?? 0;
const notBelowZero = (source: UnitSource): UnitSource => ({ ...source, left: Math.max(0, source.left) });

/** Returns false, with every grant unchanged, if one of them has too few units by now. */
async function takeFromGrants(tx: Tx, parts: readonly Part[]): Promise<boolean> {
  const taken: { id: string; units: number }[] = [];
  for (const { grant, units } of parts) {
    if (grant === null) continue;
    const part = { id: grant, units };
    if ((await takeFromGrant.run(tx, part)) > 0) {
      taken.push(part);
      continue;
    }
    for (const before of taken) await giveBackToGrant.run(tx, before);
    return false;
  }
  return true;
}

/** Units of a past period are gone, except those of grants, which outlive it. */
export type Return = { readonly period: Pick<Period, "start">; readonly parts: readonly Part[] };

export async function returnUnits(tx: Tx, request: BalanceRequest, returns: readonly Return[]): Promise<Stored> {
  const { workspace_id, now } = request;
  const at = await lockedBalance(tx, request);
  const row = { ...at.row };
  for (const { period, parts } of returns) {
    if (period.start === at.period.start) {
      row.taken = Math.max(0, row.taken - sumOf(parts));
      row.from_amount = Math.max(Math.min(0, row.from_amount), row.from_amount - amountIn(parts));
    }
    for (const { grant, units } of parts) {
      if (grant === null || (await giveBackToGrant.run(tx, { id: grant, units })) > 0) continue;
      // The grant has been deleted since: credit its units to the period. A voided grant takes nothing back.
      if (!(await grantById.first(tx, { workspace_id, id: grant }))) row.from_amount -= units;
    }
  }
  await updateBalance.run(tx, { ...row, used_at: now });
  return storedOf({ ...at, row }, await grantsOf(tx, request), null);
}

/** Publishes what this process holds to the other processes. */
export async function publishHolding(tx: Tx, row: QuotaHoldingRow): Promise<void> {
  if (tx.dialect === "postgres") await putHolding.run(tx, row);
}

/** Reads the balance, and what other processes hold, without changing it. */
export async function readBalance(on: Reader, request: ReadRequest): Promise<Stored & { others: HeldUnits }> {
  const { metered, process_id, now } = request;
  const found = await balanceAtOnce.first(on, { ...balanceKey(metered), process_id, now });
  const [row] = rowsOf(found?.balances);
  const at = inPeriod(row ?? emptyBalance(request, ""), metered.quota, now);
  const others = on.dialect === "sqlite" ? NONE_HELD : sumHeld(rowsOf(found?.held), at.period);
  return { ...storedOf(at, rowsOf(found?.grants).map(toSource), others), others };
}

/** SQLite returns JSON as text. */
const rowsOf = <R>(rows: readonly R[] | string = []): readonly R[] =>
  typeof rows === "string" ? (JSON.parse(rows) as R[]) : rows;
