// Reads a piece of the log. Every filter has an index, but for what secret keys do and for the creation of keys, which
// are most of a long log: an index of them would cost every new key. What the index does not decide is filtered from a
// bounded number of its rows, so a piece may be short, or empty, although there is more.
import { PIECE_CHARS, readPiece } from "../../store/engine/piece.ts";
import type { Reader } from "../../store/engine/tx.ts";
import {
  filterAuditRows,
  lastExamined,
  listAuditRows,
  UNINDEXED_ACTION,
  UNINDEXED_ACTOR,
  type AuditFilter,
  type AuditSlice,
  type AuditWalk,
} from "../../store/queries/audit.ts";
import { secretKeyById } from "../../store/queries/secret-keys.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { confinedTo, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { actions, TARGETS_WITH_ENV, type Action } from "../core/events.ts";

/** Rows that one piece examines at most. */
export const EXAMINED_MAX = 5_000;

export type RowFilters = {
  /** Exact, or `noun.*`. */
  action?: string | undefined;
  actor_type?: AuditLogRow["actor_type"] | undefined;
  actor_id?: string | undefined;
  target_type?: string | undefined;
  target_id?: string | undefined;
};

/** A part of a chain; both ends are exclusive. */
export type Range = { after: number; before: number };
export type Paging = { order: "asc" | "desc"; limit: number };

/**
 * `rows`: one more than the limit if there are more. `end`: the last row examined, if there may be more behind it.
 * `isCut`: it ended there only because of the width of its rows.
 */
type Found = { rows: AuditLogRow[]; end?: number | undefined; isCut: boolean };

export async function readAudit(
  ctx: Ctx<Vendor>,
  filters: RowFilters,
  range: Range,
  { order, limit }: Paging,
): Promise<Found> {
  if (range.before - range.after <= 1) return { rows: [], isCut: false };
  const { walks, rest } = await planOf(ctx, filters);
  const { read } = ctx.services.store;
  const { workspace_id } = ctx.actor;
  const examined = Math.floor(EXAMINED_MAX / walks.length);
  const chars = PIECE_CHARS / walks.length;
  const pieces = walks.map(async (walk): Promise<Found> => {
    const slice: AuditSlice = { workspace_id, walk, order, after_seq: range.after, before_seq: range.before };
    const find = (on: Reader) =>
      rest ? filterAuditRows(on, slice, rest, { examined, limit }) : listAuditRows(on, slice, limit);
    const { rows, isCut } = await readPiece(read, find, chars);
    if (isCut) return { rows, end: rows.at(-1)?.seq, isCut };
    const isAll = !rest || rows.length > limit;
    return { rows, end: isAll ? undefined : await lastExamined(read, slice, examined), isCut };
  });
  return merge(await Promise.all(pieces), { order, limit });
}

/** In the order of the log, as far as every piece was examined. */
function merge(pieces: readonly Found[], { order, limit }: Paging): Found {
  const [only] = pieces;
  if (only && pieces.length === 1) return only;
  const sign = order === "asc" ? 1 : -1;
  const ended = pieces.filter(({ end }) => end !== undefined);
  const [first] = ended.toSorted((a, b) => sign * ((a.end ?? 0) - (b.end ?? 0)));
  const rows = pieces
    .flatMap((piece) => piece.rows)
    .filter(({ seq }) => first?.end === undefined || sign * seq <= sign * first.end)
    .toSorted((a, b) => sign * (a.seq - b.seq));
  return { rows: rows.slice(0, limit + 1), end: first?.end, isCut: first?.isCut ?? false };
}

/** No walk: nothing matches. `rest`: what the walks do not decide, if anything. */
type Plan = { walks: readonly AuditWalk[]; rest?: AuditFilter | undefined };

/**
 * The index that is likely to have the fewest rows. For a test principal none whose rows may be hidden from it: the
 * number of its pages would reveal how many are.
 */
async function planOf(ctx: Ctx<Vendor>, { actor_type, actor_id, target_id, ...named }: RowFilters): Promise<Plan> {
  const isConfined = confinedTo(ctx.actor) === "test";
  const found = actionsOf(named);
  if (found?.length === 0) return { walks: [] };
  if (target_id !== undefined) {
    const walk: AuditWalk = { by: "target_id", value: target_id };
    if (isConfined && !(await isVisible(ctx, walk))) return { walks: [] };
    return plan([walk], { actions: found, actor_type, actor_id, isVisible: isConfined });
  }
  if (actor_id !== undefined && !isConfined && !(await isSecretKey(ctx, actor_id)))
    return plan([{ by: "actor_id", value: actor_id }], { actions: found, actor_type });
  if (found?.every((action) => action !== UNINDEXED_ACTION && (!isConfined || hasNoEnv(action))))
    return plan(
      found.map((value) => ({ by: "action", value })),
      { actor_type, actor_id },
    );
  if (actor_type !== undefined && actor_type !== UNINDEXED_ACTOR && !isConfined)
    return plan([{ by: "actor_type", value: actor_type }], { actions: found, actor_id });
  return plan([{ by: isConfined ? "visible" : "chain" }], { actions: found, actor_type, actor_id });
}

function plan(walks: readonly AuditWalk[], rest: AuditFilter): Plan {
  return Object.values(rest).some((value) => value !== undefined && value !== false) ? { walks, rest } : { walks };
}

async function isSecretKey({ services, actor }: Ctx<Vendor>, id: string): Promise<boolean> {
  return (await secretKeyById.first(services.store.read, { workspace_id: actor.workspace_id, id })) !== undefined;
}

/** The actions that the filters name; undefined: all. An action that this version does not know has no rows. */
function actionsOf({ action, target_type }: Pick<RowFilters, "action" | "target_type">): Action[] | undefined {
  if (action === undefined && target_type === undefined) return undefined;
  const noun = action?.endsWith(".*") ? action.slice(0, -1) : null;
  return (Object.keys(actions) as Action[]).filter(
    (name) =>
      (target_type === undefined || actions[name] === target_type) &&
      (action === undefined || (noun === null ? name === action : name.startsWith(noun))),
  );
}

/** Whether a test principal may list every row with this action. */
function hasNoEnv(action: Action): boolean {
  return !TARGETS_WITH_ENV.has(actions[action]);
}

/** Whether a test principal may list a target's rows: all of them are of the same environment. */
async function isVisible({ services, actor }: Ctx<Vendor>, walk: AuditWalk): Promise<boolean> {
  const slice = { workspace_id: actor.workspace_id, walk, after_seq: 0 };
  const first = await filterAuditRows(services.store.read, slice, { isVisible: true }, { examined: 1, limit: 1 });
  return first.length > 0;
}
