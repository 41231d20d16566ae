// A model of policy feed convergence: a node that polls snapshots in pages and then deltas, and restarts at random, has
// exactly the database's policy whenever there is nothing left to poll.
import assert from "node:assert/strict";
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import { editKey } from "../../src/domain/keys/edits.ts";
import { rotateKey } from "../../src/domain/keys/key-rotation.ts";
import { createKey, revokeKey } from "../../src/domain/keys/keys.ts";
import { policyDelta, policySnapshot, type FeedResponse } from "../../src/domain/policy/policy.ts";
import { disableKey, enableKey } from "../../src/domain/keys/disabling.ts";
import { resumeTenant, suspendTenant } from "../../src/domain/workspaces/suspension.ts";
import { createPlan, editPlan } from "../../src/domain/plans/plans.ts";
import { createProject, deleteProject, editProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant, deleteTenant, editTenant } from "../../src/domain/workspaces/tenants.ts";
import { NEVER_DISCONNECTS } from "../../src/domain/core/subscription.ts";
import type { Env } from "../../src/kernel/credentials.ts";
import type { IpMode } from "../../src/kernel/network/cidr.ts";
import { formatTimestamp } from "../../src/kernel/timestamps.ts";
import type { Row } from "../databases/raw-sql.ts";
import type { TestServices } from "../instances/services.ts";
import { seeded } from "../random.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";

/** Has nothing yet. */
export const NEW_CALLER = { hasTag: () => false, sdk: null };

export const STEPS = 24;
/** Concurrent sequences share commits and caches. */
export const AT_ONCE = 20;
const LISTS = [[], ["10.0.0.0/8"], ["2001:db8::/32", "192.0.2.1"]];
const MODES: IpMode[] = ["enforce", "report"];
const RULE = { window_ms: 60_000, algorithm: "sliding", scope: "key" } as const;

/** A random integer below n. */
type Roll = (n: number) => number;
type Entry = { key_id: string; change?: string; expires_at: string | null };
type Filter = { env?: Env; tenant_id?: string[]; caps?: string };
type World = {
  ctx: Ctx<SecretKeyActor>;
  fixture: TestServices;
  project_id: string;
  tenants: string[];
  plans: string[];
  keys: string[];
};

/** A node as the contract describes it: it knows only the server's responses. */
class Node {
  readonly keys = new Map<string, string>();
  version = 0;
  deleted = false;
  cursor: string | null = null;
  #cursorAt = 0;
  readonly #world: World;
  readonly #filter: Filter;
  readonly #roll: Roll;

  constructor(world: World, filter: Filter, roll: Roll) {
    this.#world = world;
    this.#filter = filter;
    this.#roll = roll;
  }

  get #query() {
    return { project_id: this.#world.project_id, ...this.#filter, max_keys: 1 + this.#roll(6) };
  }

  restart(): void {
    this.keys.clear();
    this.version = 0;
    this.cursor = null;
  }

  /** One request; true when the node is up to date. */
  async poll(): Promise<boolean> {
    const { ctx } = this.#world;
    if (this.cursor !== null) {
      await this.#nextPage(this.cursor);
      return false;
    }
    const query = { ...this.#query, since: this.version, wait_ms: 0, leaving: "false" as const };
    const fed = await policyDelta(ctx, query, NEW_CALLER, NEVER_DISCONNECTS);
    if (fed.page) await this.#take(fed);
    return !fed.page;
  }

  /** A cursor is valid for a week, and other sequences move the clock: only an expired one may restart the node. */
  async #nextPage(cursor: string): Promise<void> {
    const { ctx, fixture } = this.#world;
    try {
      await this.#take(await policySnapshot(ctx, { ...this.#query, cursor }, NEW_CALLER));
    } catch (error) {
      const tooOld = fixture.clock.now() - this.#cursorAt > 7 * DAY_MS;
      if (!tooOld || (error as { failure?: string }).failure !== "invalid_query") throw error;
      this.restart();
    }
  }

  async #take({ page }: FeedResponse): Promise<void> {
    const body = JSON.parse(
      Buffer.concat(page ? await this.#world.fixture.services.feed.pages.plain(page) : []).toString(),
    );
    if (body.object === "policy_snapshot") {
      if (this.cursor === null) this.keys.clear();
      this.cursor = body.next_cursor;
      this.#cursorAt = Date.parse(body.generated_at as string);
      for (const entry of body.keys as Entry[]) this.#hold(entry);
    } else {
      if (body.since !== this.version) throw new Error("a delta from a version that was not asked for");
      for (const { change, ...entry } of body.changes as Entry[]) {
        if (change === "remove") this.keys.delete(entry.key_id);
        else this.#hold(entry);
      }
    }
    this.version = body.version;
    this.deleted = body.project_deleted;
  }

  #hold(entry: Entry): void {
    this.keys.set(entry.key_id, JSON.stringify(entry));
  }

  /** The keys it has, except those that expired more than a day ago: the feed no longer reports them. */
  view(expiredBefore: number): Record<string, string> {
    const limit = formatTimestamp(expiredBefore);
    const listed = [...this.keys].filter(([, text]) => {
      const { expires_at } = JSON.parse(text) as Entry;
      return expires_at === null || expires_at >= limit;
    });
    return Object.fromEntries(listed.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** The expected policy, read by plain SQL. */
async function readPolicy(
  { fixture, project_id }: World,
  { env, tenant_id, caps = "" }: Filter,
  expiredBefore: number,
): Promise<Record<string, string>> {
  const { read } = fixture.services.store;
  const param = read.dialect === "sqlite" ? "?" : "$1";
  const rows = await read.all<Row>({
    sql: `select k.*, p.default_rate_limits, t.suspended_at, t.allowed_cidrs as tenant_cidrs, t.ip_mode as tenant_mode,
      t.rate_limits as tenant_limits, plans.rate_limits as plan_limits, plans.scopes as ceiling from api_keys k
      join projects p on p.id = k.project_id join tenants t on t.id = k.tenant_id left join plans on plans.id = t.plan_id
      where k.project_id = ${param} and k.revoked_at is null order by k.id`,
    values: [project_id],
  });
  const isDisabled = (row: Row): boolean => row.disabled_at !== null || row.suspended_at !== null;
  const listOf = (row: Row) => {
    const own = row.allowed_cidrs !== null;
    const allowed_cidrs = JSON.parse(String(own ? row.allowed_cidrs : row.tenant_cidrs)) as string[];
    return { allowed_cidrs, ip_mode: own ? row.ip_mode : row.tenant_mode };
  };
  const isConfined = (row: Row): boolean => listOf(row).allowed_cidrs.length > 0 && listOf(row).ip_mode === "enforce";
  const held = rows.filter(
    (row) =>
      (caps.includes("cidr") || !isConfined(row)) &&
      (caps.includes("disabled") || !isDisabled(row)) &&
      (caps.includes("formats") || String(row.display_prefix).startsWith("kr_")) &&
      (env === undefined || row.env === env) &&
      (tenant_id === undefined || tenant_id.includes(String(row.tenant_id))) &&
      (row.expires_at === null || Number(row.expires_at) >= expiredBefore),
  );
  const entries = held.map((row) => {
    const expires_at = row.expires_at === null ? null : formatTimestamp(Number(row.expires_at));
    const { id: key_id, tenant_id, env, lookup_hash, display_prefix } = row;
    const allowed = row.ceiling === null ? null : (JSON.parse(String(row.ceiling)) as string[]);
    const scopes = (JSON.parse(String(row.scopes)) as string[]).filter((scope) => allowed?.includes(scope) ?? true);
    const levels = [row.rate_limits, row.tenant_limits, row.plan_limits, row.default_rate_limits];
    const rate_limits = JSON.parse(String(levels.find((level) => level !== null)));
    const disabled = isDisabled(row) && { disabled: row.suspended_at === null ? "key" : "tenant" };
    const list = caps.includes("cidr") && listOf(row).allowed_cidrs.length > 0 && listOf(row);
    const rules = { scopes, expires_at, rate_limits, ...disabled, ...list };
    const entry = { key_id, tenant_id, env, lookup_hash, display_prefix, ...rules };
    return [String(key_id), JSON.stringify(entry)] as const;
  });
  return Object.fromEntries(entries);
}

async function mutateOnce(world: World, roll: Roll): Promise<void> {
  const { ctx, fixture, project_id, tenants, plans, keys } = world;
  const pick = <T>(list: T[]): T => list[roll(list.length)] as T;
  const tenant_id = pick(tenants);
  const what = roll(35);
  if (what < 7 || keys.length === 0) {
    const env = pick<Env>(["live", "live", "test"]);
    const expires_at = roll(4) === 0 ? fixture.clock.now() + 1 + roll(3 * DAY_MS) : undefined;
    keys.push((await createKey(ctx, { project_id, tenant_id, env, expires_at })).id);
  } else if (what < 10) {
    const rate_limits = pick([null, [{ ...RULE, id: "own", limit: 1 + roll(9) }]]);
    await editKey(ctx, pick(keys), { scopes: [`s:${roll(9)}`, `s:${roll(9)}`], rate_limits });
  } else if (what < 13) await revokeKey(ctx, pick(keys), undefined);
  else if (what < 15) keys.push((await rotateKey(ctx, pick(keys), roll(48))).id);
  else if (what < 16)
    await editProject(ctx, project_id, { default_rate_limits: [{ ...RULE, id: "d", limit: 1 + roll(99) }] });
  else if (what < 17 && tenants.length > 1) {
    await deleteTenant(ctx, tenant_id);
    tenants.splice(tenants.indexOf(tenant_id), 1);
  } else if (what < 18) tenants.push((await createTenant(ctx, { external_id: `t-${fixture.services.newId()}` })).id);
  else if (what < 20) await (roll(2) === 0 ? disableKey(ctx, pick(keys), undefined) : enableKey(ctx, pick(keys)));
  else if (what < 22) await (roll(2) === 0 ? suspendTenant(ctx, tenant_id, undefined) : resumeTenant(ctx, tenant_id));
  else if (what < 24) await editProject(ctx, project_id, { key_prefix: pick(["kr", "acme", "northwind"]) });
  else if (what < 27) await editTenant(ctx, tenant_id, { plan_id: pick([null, ...plans]) });
  else if (what < 28)
    await editTenant(ctx, tenant_id, { rate_limits: pick([null, [], [{ ...RULE, id: "tenant", limit: 9 }]]) });
  else if (what < 30)
    await editPlan(ctx, pick(plans), {
      rate_limits: pick([null, [], [{ ...RULE, id: "plan", limit: 1 + roll(9) }]]),
      scopes: pick([null, [], ["s:0", "s:1", "s:2", "s:3", "s:4"]]),
    });
  else if (what < 32) await editKey(ctx, pick(keys), { allowed_cidrs: pick([null, ...LISTS]), ip_mode: pick(MODES) });
  else if (what < 34) await editTenant(ctx, tenant_id, { allowed_cidrs: pick(LISTS), ip_mode: pick(MODES) });
  else fixture.clock.advance(roll(20 * 3_600_000));
}

/** One project's lifetime: mutations, polls and restarts; compares nodes with the database when all have caught up. */
export async function runFeedSequence(ctx: Ctx<SecretKeyActor>, fixture: TestServices, seed: number): Promise<void> {
  const { int } = seeded(seed);
  const roll: Roll = (n) => int(0, n - 1);
  const project = await createProject(ctx, { name: "P", slug: `p-${seed}` });
  const tenants: string[] = [];
  for (let i = 0; i < 3; i++) tenants.push((await createTenant(ctx, { external_id: `s${seed}-${i}` })).id);
  const plans: string[] = [];
  for (let i = 0; i < 2; i++) plans.push((await createPlan(ctx, { name: "Plan", slug: `plan-${seed}-${i}` })).id);
  const world: World = { ctx, fixture, project_id: project.id, tenants, plans, keys: [] };
  const caps = "cidr,disabled,formats";
  const filters: Filter[] = [{}, { env: "live", caps }, { tenant_id: tenants.slice(0, 2) }, { caps }];
  const nodes = filters.map((filter) => new Node(world, filter, roll));
  for (let step = 0; step < STEPS; step++) {
    await mutateOnce(world, roll).catch((error: { status?: number }) => {
      if ((error.status ?? 500) >= 500) throw error;
    });
    for (const node of nodes) {
      if (roll(3) === 0) await node.poll();
      if (roll(25) === 0) node.restart();
    }
    if (step % 8 === 7) await compareNodes(world, nodes, filters, seed);
  }
  if (seed % 5 === 0) {
    await deleteProject(ctx, project.id);
    await compareNodes(world, nodes, filters, seed);
    for (const node of nodes) assert.deepEqual([node.deleted, node.keys.size], [true, 0]);
  }
}

async function compareNodes(world: World, nodes: Node[], filters: Filter[], seed: number): Promise<void> {
  for (const [i, node] of nodes.entries()) {
    let polls = 0;
    while (!(await node.poll())) assert.ok(++polls < 200, `sequence ${seed} does not settle`);
    const expiredBefore = world.fixture.clock.now() - DAY_MS; // other sequences move the same clock
    const want = await readPolicy(world, filters[i] ?? {}, expiredBefore);
    assert.deepEqual(node.view(expiredBefore), want, `sequence ${seed}, node ${i}`);
  }
}

/** Small pages, so that a snapshot has several. */
export const FEED_FLAGS = { snapshot_max_keys: "5" } as const;
