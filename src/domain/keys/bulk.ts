// One action on many keys. A call changes one page of them in one transaction: all of it or nothing. The walk keeps no
// state on the server: the cursor names the position and the start of the run, and keys minted since are not matched,
// or a rotation would rotate its own successors. A page may be short, or empty, although there is more.
import type { BulkAction } from "../../kernel/bulk-actions.ts";
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { timeOfUuid } from "../../kernel/ids.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  countEligible,
  eligibleKeys,
  rangeEnd,
  type BulkKey,
  type BulkSelection,
  type KeyFilter,
} from "../../store/queries/key-bulk.ts";
import type { PageKey } from "../../store/queries/page.ts";
import { projectPolicies } from "../../store/queries/projects.ts";
import type { Reader } from "../../store/engine/tx.ts";
import { confinedTo, ownerOf, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { parseKeyPolicy } from "../key-policy/key-policy.ts";
import { visibleEnv } from "../core/env-access.ts";
import { versionGate } from "../core/version-gate.ts";
import { findReplay } from "../idempotency/replays.ts";
import { inFleetSlot, inThreadSlot, threadReader } from "../core/read-slots.ts";
import { changePage, endsKeys, viewBulkKey, type BulkKeyView, type PageChange } from "./bulk-changes.ts";

/** Keys that one call examines at most to find a page. */
export const EXAMINED_MAX = 5_000;
/** Keys that are examined in one turn of the event loop, in which the pieces of other workspaces run too. */
const PIECE_KEYS = 100;
/** Keys that another thread examines at once: PostgreSQL ends a statement after five seconds. */
const THREAD_PIECE_KEYS = 1_000;
/** More keys are counted on another thread, which may have to be started first. */
export const COUNTED_HERE_MAX = 20_000;
const RUN_MS_MAX = 7 * DAY_MS;

type BulkFilter = KeyFilter & {
  ids?: string[] | undefined;
  tenant_id?: string | string[] | undefined;
  all?: true | undefined;
};

type Bulk = {
  action: BulkAction;
  filter: BulkFilter;
  dry_run: boolean;
  limit: number;
  cursor?: string | undefined;
  bulk_id?: string | undefined;
  expect?: number | undefined;
  reason?: string | undefined;
  overlap_hours: number;
  grace_days: number;
};

type BulkResult = {
  object: "bulk_result";
  bulk_id: string;
  action: BulkAction;
  dry_run: boolean;
  matched: number | null;
  changed: number;
  data: BulkKeyView[];
  next_cursor: string | null;
  versions: { project_id: string; version: number }[];
};

type Run = { bulk_id: string; before: string; after: PageKey | null };

export async function bulkKeys(ctx: Ctx<Vendor>, bulk: Bulk): Promise<BulkResult> {
  const { services, actor } = ctx;
  const { action, dry_run, limit, expect } = bulk;
  const env = visibleEnv(actor, bulk.filter.env);
  const replayed = ctx.replay && (await findReplay(services.store.read, ctx.replay, services.clock.now()));
  if (replayed) return replayed.value as BulkResult; // whatever matches by now
  // Here and not before the lookup: a rotation that filled the share must still show its keys to a retry.
  if (!dry_run && !endsKeys(action)) services.writtenBytes.requireRoom(ownerOf(actor));
  if (action === "disable") await versionGate.assertKnownEverywhere(services, "disabled keys");
  const pages = new ListCursor(ctx, "bulk", { action, filter: JSON.stringify(bulk.filter) });
  const run = bulk.cursor === undefined ? startRun(ctx, pages, bulk.bulk_id) : continueRun(ctx, pages, bulk.cursor);
  const selection = { ...selectionOf(ctx, bulk, run.before, env), lives: await livesOf(ctx, bulk) };
  const { matched, keys, next } = await inPieces(ctx, selection, run.after, async (pieces) => {
    const count = run.after === null ? await countMatches(pieces, selection, expect) : null;
    await yieldToEventLoop();
    return { matched: count, ...(await findPage(pieces, selection, run.after, limit)) };
  });
  const bulk_id = bulk.bulk_id ?? run.bulk_id;
  const cursorAt = (position: PageKey | null): string | null =>
    position && pages.write([bulk_id, run.before, position.created_at, position.id]);
  const result = { object: "bulk_result" as const, bulk_id, action, dry_run, matched };
  if (dry_run) return { ...result, changed: 0, data: keys.map(viewBulkKey), next_cursor: cursorAt(next), versions: [] };
  // The clocks of processes differ: successors must not get ids that the run still matches.
  if (action === "rotate" && services.newId() < run.before) throw fail("unavailable");
  const answer = ({ data, versions, next: last }: PageChange): BulkResult => {
    return { ...result, changed: data.length, data, next_cursor: cursorAt(last), versions };
  };
  return changePage(ctx, { ...bulk, bulk_id, selection, keys, next }, answer);
}

/** The digits of an id before its last 32 bits. */
const HEAD_CHARS = 28;
const boundOf = (bulk_id: string): string => `${bulk_id.slice(0, HEAD_CHARS)}00000000`;

/**
 * The id of a run is, where this server made it for the same action and filter, also the boundary between the keys that
 * it matches and newer ones: so a run that starts over with its id, or with that of its dry run, matches what that
 * matched. Its last 32 bits are a tag by which it is recognised. Any other id is only a name: were it a boundary, a run
 * named after an earlier record would spare the keys minted since.
 */
function startRun(ctx: Ctx, pages: ListCursor, given: string | undefined): Run {
  const isOwn = given !== undefined && pages.tag(given.slice(0, HEAD_CHARS)) === given.slice(HEAD_CHARS);
  if (isOwn) requireRecent(ctx, given, "bulk_id");
  const bulk_id = isOwn ? given : newRunId(ctx, pages);
  return { bulk_id: given ?? bulk_id, before: boundOf(bulk_id), after: null };
}

/** Its bound is above every id made before, and not above any made later. */
function newRunId({ services }: Ctx, pages: ListCursor): string {
  const made = boundOf(services.newId());
  let id = services.newId();
  while (boundOf(id) === made) id = services.newId();
  const head = id.slice(0, HEAD_CHARS);
  return head + pages.tag(head);
}

function requireRecent({ services }: Ctx, id: string, path: string): void {
  if ((timeOfUuid(id) ?? 0) < services.clock.now() - RUN_MS_MAX)
    throw failField("invalid_body", path, "is older than seven days");
}

function continueRun(ctx: Ctx, pages: ListCursor, cursor: string): Run {
  const shape = ["string", "string", "number", "string"] as const;
  const [bulk_id = "", before = "", created_at = 0, id = ""] = pages.read(cursor, shape, "invalid_body");
  requireRecent(ctx, String(before), "cursor");
  return {
    bulk_id: String(bulk_id),
    before: String(before),
    after: { created_at: Number(created_at), id: String(id) },
  };
}

function selectionOf({ services, actor }: Ctx<Vendor>, { action, filter }: Bulk, before: string, env: Env | undefined) {
  const { tenant_id, all: _all, ...rest } = filter;
  const selection: BulkSelection = {
    ...rest,
    workspace_id: actor.workspace_id,
    action,
    now: services.clock.now(),
    before,
    projects: projectsOf(actor),
    confinedTo: confinedTo(actor),
    env,
    tenant_ids: typeof tenant_id === "string" ? [tenant_id] : tenant_id,
  };
  return selection;
}

/** The longest key life of each project of the workspace that limits it; only for `cap_expiry`. */
async function livesOf(
  { services, actor }: Ctx<Vendor>,
  { action, grace_days }: Bulk,
): Promise<BulkSelection["lives"]> {
  if (action !== "cap_expiry") return undefined;
  const projects = await projectPolicies.all(services.store.read, { workspace_id: actor.workspace_id });
  const max = projects.flatMap(({ id, key_policy }) => {
    const { max_ttl_days } = parseKeyPolicy(key_policy);
    return max_ttl_days === null ? [] : [{ id, ms: max_ttl_days * DAY_MS }];
  });
  return { max, earliest: services.clock.now() + grace_days * DAY_MS };
}

/** More than the columns of a key is examined, or texts of any length: on another thread if one piece is not all. */
const isCostly = ({ action, scope }: BulkSelection): boolean =>
  scope !== undefined || action === "rotate" || action === "cap_expiry";

/** From where keys are read, and how many at once. */
type Pieces = { on: Reader; keys: number };

/**
 * Runs `read` here if one piece is all, else in a slot of the caller: here or, where it may take long, on a thread. The
 * first page is read after the keys are counted.
 */
async function inPieces<T>(
  ctx: Ctx<Vendor>,
  selection: BulkSelection,
  after: PageKey | null,
  read: (pieces: Pieces) => Promise<T>,
): Promise<T> {
  const { store } = ctx.services;
  const isMoreThan = async (keys: number): Promise<boolean> =>
    !selection.ids && (await rangeEnd(store.read, selection, after, keys)) !== undefined;
  const readHere = (): Promise<T> => read({ on: store.read, keys: PIECE_KEYS });
  if (!(await isMoreThan(PIECE_KEYS))) return readHere();
  const isLong = isCostly(selection) || (after === null && (await isMoreThan(COUNTED_HERE_MAX)));
  await yieldToEventLoop();
  if (!isLong) return inFleetSlot(ctx, readHere);
  return inThreadSlot(ctx, () => read({ on: threadReader(store), keys: THREAD_PIECE_KEYS }));
}

async function countMatches(pieces: Pieces, selection: BulkSelection, expect: number | undefined): Promise<number> {
  let matched = 0;
  for (let after: PageKey | null = null, isEnd = false; !isEnd; ) {
    const upTo = await endOfPiece(pieces, selection, after);
    matched += await countEligible(pieces.on, selection, { after, upTo });
    after = upTo;
    isEnd = upTo === null;
    if (!isEnd) await yieldToEventLoop();
  }
  if (expect === undefined || matched <= expect) return matched;
  throw fail("bulk_unexpected", { details: [{ path: "expect", message: "is below the number of matches" }] });
}

/** Null at the end. Named keys are few: all of them are one piece. */
async function endOfPiece(
  { on, keys }: Pieces,
  selection: BulkSelection,
  after: PageKey | null,
): Promise<PageKey | null> {
  return selection.ids ? null : ((await rangeEnd(on, selection, after, keys)) ?? null);
}

async function findPage(pieces: Pieces, selection: BulkSelection, after: PageKey | null, limit: number) {
  const keys: BulkKey[] = [];
  let next: PageKey | null = after;
  for (let examined = 0; examined < EXAMINED_MAX; examined += pieces.keys) {
    const range = { after: next, upTo: await endOfPiece(pieces, selection, next) };
    const missing = limit - keys.length;
    const found = await eligibleKeys(pieces.on, selection, range, missing + 1);
    keys.push(...found.slice(0, missing));
    if (found.length > missing) return { keys, next: keys.at(-1) ?? null };
    next = range.upTo;
    if (next === null) break;
    await yieldToEventLoop();
  }
  return { keys, next };
}
