// Keeps the search index up to date: in the background, and before a search, so that a key is found as soon as its
// response is out. Keys are taken in the order of policy versions, which every change of a key raises; terms and
// progress are written in one transaction, so after a crash the next run continues where the last one ended.
// Each environment has a progress of its own, and pays for its own keys: however many test keys wait to be indexed, a
// search for live keys only steps over them. A search without an environment covers both, and waits for both.
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import { chunked } from "../../kernel/chunks.ts";
import type { Env } from "../../kernel/credentials.ts";
import { SECOND_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { MIB } from "../../kernel/sizes.ts";
import { LoopShare, yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  changedKeys,
  indexedProjects,
  keysToIndex,
  nextProjects,
  progressOf,
  saveProgress,
  tenantsFrom,
  versionBehind,
  writeTerms,
  type ChangedKey,
  type IndexedKey,
} from "../../store/queries/search-terms.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SearchTermRow } from "../../store/schema/tables.ts";
import { ownerOf, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { keyTerms, tenantTerms } from "./terms.ts";

/** Keys or tenants of one transaction, and projects: every other writer waits for it. */
const STEP_RECORDS = 100;
/** Bytes of scopes of one transaction, and keys of one read: a key may have 48 KiB of them. */
const STEP_BYTES = MIB;
const KEYS_READ = 10;
/** Keys of both environments that one statement reads at most to find those of one. */
const SCANNED_KEYS = 2_000;
/** Statements of one step that find no key of the environment; then the place is saved. */
const SKIPS_OF_A_STEP = 50;
/** A search that finds the index behind waits this long for it; the job continues with what is left. */
const SEARCH_WAIT_MS = 2 * SECOND_MS;
const PROJECTS_AT_ONCE = 500;
const SKIPS_MAX = 5;
/** The last id of a version whose keys are all indexed. */
const DONE = LAST_ID;
/** The version once all tenants are indexed: new ones are indexed in the transaction that creates them. */
const ALL_TENANTS = Number.MAX_SAFE_INTEGER;
const NEWEST = Number.MAX_SAFE_INTEGER;

/** How far the keys of a project are indexed in one environment. */
type Place = { version: number; last_id: string };
type Behind = Place & { id: string; workspace_id: string; env: Env; policy_version: number };
/** The row of `search_progress` for the keys of a project in one environment. */
const progressId = (project_id: string, env: Env): string => `${project_id}/${env}`;

/** Where to read on. Not at a version that is done: a bulk change may have given it to many keys. */
function startOf({ version, last_id }: Place): Place {
  return last_id === DONE ? { version: version + 1, last_id: "" } : { version, last_id };
}

type Project = Awaited<ReturnType<typeof indexedProjects.all>>[number];

function behindIn(env: Env, projects: readonly Project[]): Behind[] {
  const all = projects.map((project) => {
    const { id, workspace_id, policy_version } = project;
    const place = { version: project[`${env}_version`], last_id: project[`${env}_last_id`] };
    return { id, workspace_id, env, policy_version, ...place };
  });
  return all.filter(({ version, policy_version, last_id }) => version < policy_version || last_id !== DONE);
}

/**
 * Before a search for keys of an environment, or of both. Refuses it while the index lacks very many records, as after
 * an upgrade: a list without them would look complete.
 */
export async function requireIndexed(ctx: Ctx<Vendor>, env: Env | undefined): Promise<void> {
  const until = ctx.services.clock.steady() + SEARCH_WAIT_MS;
  for (const each of env === undefined ? (["live", "test"] as const) : [env]) await catchUp(ctx, each, until);
  await ctx.requireStillValid?.(); // it may have waited
}

/** Before a search for tenants. */
export async function requireTenantsIndexed(ctx: Ctx<Vendor>): Promise<void> {
  const { services, actor } = ctx;
  const until = services.clock.steady() + SEARCH_WAIT_MS;
  while (!(await indexTenants(services, actor.workspace_id, ownerOf(actor))))
    if (services.clock.steady() >= until) throw fail("search_indexing");
  await ctx.requireStillValid?.();
}

async function catchUp({ services, actor }: Ctx<Vendor>, env: Env, until: number): Promise<void> {
  const { clock, worker } = services;
  const { workspace_id } = actor;
  const owner = cellOwner(workspace_id, env, actor.account_id);
  await worker.searchPasses.get(owner.id)?.catch(() => {}); // it may have begun before the newest key
  const startPass = (): Promise<boolean> => {
    const pass = indexCell(services, { workspace_id, env, until, owner });
    const ended = pass.finally(() => worker.searchPasses.delete(owner.id));
    worker.searchPasses.set(owner.id, ended);
    return ended;
  };
  while (!(await (worker.searchPasses.get(owner.id) ?? startPass())))
    if (clock.steady() >= until) throw fail("search_indexing");
}

/** One pass, which the searches of a workspace and environment share. False when it took too long. */
async function indexCell(
  services: Services,
  { workspace_id, env, until, owner }: { workspace_id: string; env: Env; until: number; owner: Owner },
): Promise<boolean> {
  const { store, clock } = services;
  const isLate = (): boolean => clock.steady() >= until;
  while (!(await indexTenants(services, workspace_id, owner))) if (isLate()) return false;
  const behind = behindIn(env, await indexedProjects.all(store.read, { workspace_id }));
  while (!(await indexKeys(services, behind, owner))) if (isLate()) return false;
  return true;
}

/** Scheduled job. Leaves the writer to others while they wait for it, a few times in a row. bench: vendor/mint */
export async function indexChanges(services: Services): Promise<void> {
  const { store, shutdown, worker } = services;
  const skips = worker.searchSkips ?? 0;
  worker.searchSkips = store.backlog > 0 && skips < SKIPS_MAX ? skips + 1 : 0;
  if (worker.searchSkips > 0) return;
  for (let after = ""; !shutdown.signal.aborted; ) {
    const projects = await nextProjects.all(store.read, { after, limit: PROJECTS_AT_ONCE });
    worker.searchBacklog = projects.reduce((sum, each) => sum + missingVersions(each), 0);
    for (const project of [...behindIn("live", projects), ...behindIn("test", projects)]) {
      while (!shutdown.signal.aborted && !(await indexTenants(services, project.workspace_id)));
      const only = [project];
      while (!shutdown.signal.aborted && !(await indexKeys(services, only)));
    }
    if (projects.length < PROJECTS_AT_ONCE) break;
    after = projects.at(-1)?.id ?? after;
  }
  worker.searchBacklog = 0;
}

function missingVersions({ policy_version, live_version, test_version }: Project): number {
  return Math.max(0, policy_version - Math.max(0, Math.min(live_version, test_version)));
}

/**
 * One step. True when the keys of these projects are all indexed, else `projects` begins where the next step does.
 * Projects share a step, because a workspace may have a few new keys in each of very many.
 */
async function indexKeys(services: Services, projects: Behind[], owner?: Owner): Promise<boolean> {
  const [first] = projects;
  if (!first) return true;
  const { place, isEnd } = await skipOtherEnv(services, first);
  if (isEnd && owner && place.version === first.version) {
    projects.shift(); // a search writes nothing for a few keys of the other environment: the job saves the place
    return projects.length === 0;
  }
  projects[0] = { ...first, ...place };
  const { done, next } = await record(services, (tx) => writeStep(tx, projects), { owner });
  projects.splice(0, next ? done + 1 : done, ...(next ? [next] : []));
  return projects.length === 0;
}

/** Moves past keys of the other environment without writing. `isEnd`: no key of this one is left. */
async function skipOtherEnv({ store }: Services, project: Behind): Promise<{ place: Place; isEnd: boolean }> {
  const { id: project_id, env } = project;
  let place: Place = { version: project.version, last_id: project.last_id };
  for (let i = 0; i < SKIPS_OF_A_STEP; i++) {
    const bound = await versionBehind.first(store.read, { project_id, version: place.version, keys: SCANNED_KEYS });
    const upTo = bound?.policy_version ?? NEWEST;
    if (await changedKeys.first(store.read, { project_id, env, ...startOf(place), upTo, limit: 1 })) break;
    if (!bound) return { place, isEnd: true };
    place = { version: upTo, last_id: DONE };
    await yieldToEventLoop();
  }
  return { place, isEnd: false };
}

/** `done`: the number of projects that are all indexed; `next`: what the one after them still lacks. */
async function writeStep(tx: Tx, projects: readonly Behind[]): Promise<{ done: number; next: Behind | null }> {
  const terms: SearchTermRow[] = [];
  const room = { keys: STEP_RECORDS, bytes: STEP_BYTES };
  let [done, next] = [0, null as Behind | null];
  for (const project of projects.slice(0, STEP_RECORDS)) {
    const { id: project_id, workspace_id, env, version } = project;
    const bound = await versionBehind.first(tx, { project_id, version, keys: SCANNED_KEYS });
    const upTo = bound?.policy_version ?? NEWEST;
    const { keys, isRead } = await readChanged(tx, project, upTo, room);
    for (const key of keys) terms.push(...keyTerms(workspace_id, key));
    const last = keys.at(-1);
    const isDone = isRead && upTo === NEWEST;
    const all = isDone ? Math.max(project.policy_version, last?.policy_version ?? 0) : upTo;
    const place = isRead
      ? { version: all, last_id: DONE }
      : { version: last?.policy_version ?? version, last_id: last?.id ?? project.last_id };
    await saveProgress.run(tx, { id: progressId(project_id, env), ...place });
    if (!isDone) {
      next = { ...project, ...place };
      break;
    }
    done++;
  }
  await writeTerms(tx, sorted(terms));
  return { done, next };
}

/** Takes its keys from `room`. `isRead`: these are all up to the version. */
async function readChanged(tx: Tx, project: Behind, upTo: number, room: { keys: number; bytes: number }) {
  const { id: project_id, env } = project;
  const limit = room.keys;
  const changed = await changedKeys.all(tx, { project_id, env, ...startOf(project), upTo, limit });
  const keys: ChangedKey[] = [];
  const loop = new LoopShare();
  for (const some of chunked(changed, KEYS_READ)) {
    if (room.bytes <= 0) return { keys, isRead: false };
    const ids = some.map(({ id }) => id);
    const read = new Map((await keysToIndex(tx, project_id, ids)).map((key) => [key.id, key]));
    // With the version in the list: a key that another process has changed since is listed again.
    for (const { id, policy_version } of some) keys.push({ ...(read.get(id) as IndexedKey), policy_version });
    room.keys -= ids.length;
    for (const { scopes } of read.values()) room.bytes -= Buffer.byteLength(scopes);
    await loop.yieldIfDue();
  }
  return { keys, isRead: changed.length < limit };
}

/** One step for the tenants of a workspace that are older than the index. */
async function indexTenants(services: Services, workspace_id: string, owner?: Owner): Promise<boolean> {
  const { read } = services.store;
  const done = (await progressOf.first(read, { id: workspace_id }))?.version === ALL_TENANTS;
  if (done) return true;
  const step = async (tx: Tx): Promise<boolean> => {
    const { version = -1, last_id = "" } = (await progressOf.first(tx, { id: workspace_id })) ?? {};
    if (version === ALL_TENANTS) return true;
    const place = { workspace_id, created_at: version, last_id, limit: STEP_RECORDS };
    const tenants = await tenantsFrom.all(tx, place);
    await writeTerms(tx, sorted(tenants.flatMap((tenant) => tenantTerms(tenant))));
    const last = tenants.length < STEP_RECORDS ? undefined : tenants.at(-1);
    const next = last ? { version: last.created_at, last_id: last.id } : { version: ALL_TENANTS, last_id: "" };
    await saveProgress.run(tx, { id: workspace_id, ...next });
    return last === undefined;
  };
  return record(services, step, { owner });
}

/** In the order of the index, and each once: neighbours are written to the same page. */
function sorted(terms: readonly SearchTermRow[]): SearchTermRow[] {
  const keyed = new Map(terms.map((row) => [`${row.kind}\n${row.term}\n${row.id}`, row]));
  return [...keyed].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}
