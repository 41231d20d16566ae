// Changes one page of a bulk action in one transaction, with one policy version a project and one audit row a key.
import type { BulkAction } from "../../kernel/bulk-actions.ts";
import type { Env } from "../../kernel/credentials.ts";
import { OWN_PREFIX } from "../../kernel/key-prefixes.ts";
import { chunked } from "../../kernel/chunks.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";
import { MIB } from "../../kernel/sizes.ts";
import { forPieces, LoopShare } from "../../platform/event-loop.ts";
import {
  capExpiries,
  changeKeys,
  eligibleKeys,
  type BulkChange,
  type BulkKey,
  type BulkSelection,
} from "../../store/queries/key-bulk.ts";
import { insertMeteredKey, keyById, shortenKey } from "../../store/queries/keys.ts";
import type { PageKey } from "../../store/queries/page.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow, PlanRow, ProjectRow } from "../../store/schema/tables.ts";
import { mintKey, onHashConflict, retryOnHashCollision, type NewCredential } from "../auth/new-credentials.ts";
import { keyPrefixesOf } from "../workspaces/key-prefixes.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ENDING_ACTIONS, type Action, type Event } from "../core/events.ts";
import type { KeyPolicy } from "../key-policy/key-policy.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { planOfKey } from "../plans/plans.ts";
import { keyPolicyOf } from "../plans/resolution.ts";
import { liveProject } from "../workspaces/projects.ts";
import { keyRotated, rotatedRows } from "./key-rotation.ts";

/** Bytes of keys that one commit copies: more would hold every other writer. */
const ROTATED_BYTES = MIB;
/** Keys that one statement changes, and that are read at once: a key may have 64 KiB, and a change rewrites its row. */
const KEYS_AT_ONCE = 25;

const AUDITED_AS = {
  revoke: "api_key.revoked",
  disable: "api_key.disabled",
  enable: "api_key.enabled",
  rotate: "api_key.rotated",
  cap_expiry: "api_key.updated",
} as const satisfies Record<BulkAction, Action>;

/** Whether it only ends keys: it is then never refused for want of room. */
export const endsKeys = (action: BulkAction): boolean => ENDING_ACTIONS.has(AUDITED_AS[action]);

export type BulkKeyView = {
  id: string;
  project_id: string;
  tenant_id: string;
  env: Env;
  display_prefix: string;
  name: string | null;
  successor_id?: string;
  key?: string;
};

type Page = {
  action: BulkAction;
  bulk_id: string;
  reason?: string | undefined;
  overlap_hours: number;
  selection: BulkSelection;
  keys: readonly BulkKey[];
  /** Where the walk continues. */
  next: PageKey | null;
};

export type PageChange = {
  data: BulkKeyView[];
  versions: { project_id: string; version: number }[];
  next: PageKey | null;
};

export function viewBulkKey({ id, project_id, tenant_id, env, display_prefix, name }: BulkKey): BulkKeyView {
  return { id, project_id, tenant_id, env, display_prefix, name };
}

/** Keys that have changed since the page was found are left out. `respond` makes what an idempotency key stores. */
export async function changePage<T>(ctx: Ctx<Vendor>, page: Page, respond: (change: PageChange) => T): Promise<T> {
  const { workspace_id } = ctx.actor;
  const rotated = page.action === "rotate" ? page.keys : [];
  const prefixes = await keyPrefixesOf(ctx.services.store.read, new Set(rotated.map(({ project_id }) => project_id)));
  return retryOnHashCollision(() => {
    const minted = new Map(
      rotated.map(({ id, env, project_id }) => [id, mintKey(prefixes.get(project_id) ?? OWN_PREFIX, env)]),
    );
    const scope = {
      workspace_id,
      weight: Math.max(1, page.keys.length),
      onConflict: onHashConflict,
      mustStoreResponse: !endsKeys(page.action), // new keys are shown only there
    };
    return mutate(ctx, scope, async (tx) => {
      const keys = await stillEligible(tx, page);
      const [first, ...rest] = keys;
      if (!first) return unchanged(respond({ data: [], versions: [], next: page.next }));
      const { events, ...change } = await changeKeysOf(ctx, tx, page, [first, ...rest], minted);
      return { value: respond(change), events };
    });
  });
}

/** In the order of the page, which is theirs. */
async function stillEligible(tx: Tx, { selection, keys }: Page): Promise<BulkKey[]> {
  const found: BulkKey[] = [];
  await forPieces(keys, KEYS_AT_ONCE, async (some) => {
    const ids = some.map(({ id }) => id);
    found.push(...(await eligibleKeys(tx, { ...selection, ids }, { after: null, upTo: null }, ids.length)));
  });
  return found;
}

type Done = PageChange & { events: [Event, ...Event[]] };

type Minted = ReadonlyMap<string, NewCredential>;
type Some = [BulkKey, ...BulkKey[]];

function changeKeysOf(ctx: Ctx<Vendor>, tx: Tx, page: Page, keys: Some, minted: Minted): Promise<Done> {
  if (page.action === "rotate") return rotatePage(ctx, tx, page, keys, minted);
  return page.action === "cap_expiry" ? capPage(ctx, tx, page, keys) : switchPage(ctx, tx, page, keys);
}

/** Brings the expiry of keys that live longer than their project allows forward. */
async function capPage(ctx: Ctx<Vendor>, tx: Tx, page: Page, keys: Some): Promise<Done> {
  const { workspace_id } = ctx.actor;
  const { max, earliest } = page.selection.lives ?? { max: [], earliest: 0 };
  const lifeOf = (project_id: string): number => max.find(({ id }) => id === project_id)?.ms ?? Number.MAX_SAFE_INTEGER;
  const versions = await bumpProjects(tx, keys);
  for (const { project_id, version: policy_version } of versions) {
    const ids = keys.filter((key) => key.project_id === project_id).map(({ id }) => id);
    const life = { ms: lifeOf(project_id), earliest, policy_version };
    await forPieces(ids, KEYS_AT_ONCE, (some) => capExpiries(tx, { workspace_id, project_id, ids: some }, life));
  }
  const eventOf = ({ id, env, project_id, created_at, expires_at }: BulkKey): Event => {
    const capped = formatTimestamp(Math.max(created_at + lifeOf(project_id), earliest));
    const change = { old: formatTimestampOrNull(expires_at), new: capped };
    return { action: "api_key.updated", target_id: id, payload: { env, expires_at: change, bulk_id: page.bulk_id } };
  };
  const [first, ...rest] = keys;
  return { data: keys.map(viewBulkKey), versions, next: page.next, events: [eventOf(first), ...rest.map(eventOf)] };
}

/** Revokes, disables or enables. */
async function switchPage(ctx: Ctx<Vendor>, tx: Tx, page: Page, keys: Some): Promise<Done> {
  const { workspace_id } = ctx.actor;
  const { action, bulk_id, next } = page;
  const reason = page.reason ?? null;
  const now = ctx.services.clock.now();
  const versions = await bumpProjects(tx, keys, action === "revoke" ? {} : { uses: CAP.disabled });
  for (const { project_id, version: policy_version } of versions) {
    const ids = keys.filter((key) => key.project_id === project_id).map(({ id }) => id);
    const change = { ...columnsOf(action, now, reason), policy_version };
    await forPieces(ids, KEYS_AT_ONCE, (some) => changeKeys(tx, { workspace_id, project_id, ids: some }, change));
  }
  const eventOf = ({ id, env }: BulkKey): Event => {
    const payload = action === "enable" ? { env, bulk_id } : { env, reason, bulk_id };
    return { action: AUDITED_AS[action], target_id: id, payload };
  };
  const [first, ...rest] = keys;
  return { data: keys.map(viewBulkKey), versions, next, events: [eventOf(first), ...rest.map(eventOf)] };
}

function columnsOf(action: BulkAction, now: number, reason: string | null): Omit<BulkChange, "policy_version"> {
  if (action === "revoke") return { revoked_at: now, revoked_reason: reason, revoked_cause: "revoked" };
  return action === "disable"
    ? { disabled_at: now, disabled_reason: reason, enabled_at: null }
    : { disabled_at: null, disabled_reason: null, enabled_at: now };
}

async function bumpProjects(
  tx: Tx,
  keys: readonly { project_id: string }[],
  options: Parameters<Tx["bump"]>[1] = {},
): Promise<PageChange["versions"]> {
  const versions: PageChange["versions"] = [];
  for (const project_id of [...new Set(keys.map((key) => key.project_id))].toSorted())
    versions.push({ project_id, version: await tx.bump(project_id, options) });
  return versions;
}

async function rotatePage(
  ctx: Ctx<Vendor>,
  tx: Tx,
  { overlap_hours, bulk_id, next }: Page,
  keys: readonly BulkKey[],
  minted: Minted,
): Promise<Done> {
  const { workspace_id } = ctx.actor;
  const { rows, isCut } = await readWithin(tx, workspace_id, keys);
  const versions = await bumpProjects(tx, rows);
  const versionOf = new Map(versions.map(({ project_id, version }) => [project_id, version]));
  const policyOf = await policiesOf(tx, rows);
  const rotated = rows.map((row) => {
    const policy_version = versionOf.get(row.project_id) as number;
    const credential = minted.get(row.id) as NewCredential;
    const rows = rotatedRows(ctx, row, credential, { overlap_hours, policy_version, policy: policyOf(row) });
    return { row, text: credential.text, ...rows };
  });
  await forPieces(rotated, KEYS_AT_ONCE, async (some) => {
    await Promise.all(some.map(({ previous }) => shortenKey.run(tx, previous)));
    await insertMeteredKey.insertMany(
      tx,
      some.map(({ successor }) => successor),
    );
  });
  const events = rotated.map(({ row, successor }): Event => {
    const { payload, ...event } = keyRotated(row, successor, overlap_hours);
    return { ...event, payload: { ...payload, bulk_id } };
  }) as [Event, ...Event[]];
  const data = rotated.map(({ row, successor, text }) => {
    return { ...viewBulkKey(row), successor_id: successor.id, key: text };
  });
  return { data, versions, next: isCut ? (rows.at(-1) ?? null) : next, events };
}

/** The rules for the life of keys, of each project and tenant read once. */
async function policiesOf(tx: Tx, rows: readonly ApiKeyRow[]): Promise<(row: ApiKeyRow) => KeyPolicy> {
  const projects = new Map<string, ProjectRow>();
  const plans = new Map<string, PlanRow | null>();
  for (const row of rows) {
    const { workspace_id, project_id, tenant_id } = row;
    if (!projects.has(project_id)) projects.set(project_id, await liveProject(tx, workspace_id, project_id));
    if (!plans.has(tenant_id)) plans.set(tenant_id, await planOfKey(tx, row));
  }
  return ({ project_id, tenant_id }) =>
    keyPolicyOf(projects.get(project_id) as ProjectRow, plans.get(tenant_id) ?? null);
}

/** Reads the first keys that fit; at least one. */
async function readWithin(tx: Tx, workspace_id: string, keys: readonly BulkKey[]) {
  const rows: ApiKeyRow[] = [];
  const loop = new LoopShare();
  let bytes = 0;
  for (const some of chunked(keys, KEYS_AT_ONCE)) {
    const found = await Promise.all(some.map(({ id }) => keyById.first(tx, { workspace_id, id })));
    for (const row of found.filter((each) => each !== undefined)) {
      bytes += Buffer.byteLength(row.meta) + Buffer.byteLength(row.scopes) + Buffer.byteLength(row.rate_limits ?? "");
      if (bytes > ROTATED_BYTES && rows.length > 0) return { rows, isCut: true };
      rows.push(row);
    }
    await loop.yieldIfDue();
  }
  return { rows, isCut: false };
}
