// Keeps the search index up to date: in the background, and before a search, so that a key is found as soon as its
// response is out. Keys are taken in the order of policy versions, which every change of a key raises; terms and
// progress are written in one transaction, so after a crash the next run continues where the last one ended.
import type { Owner } from "../../fairness/owners.ts";
import { SECOND_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import {
  changedKeys,
  indexedProjects,
  nextProjects,
  progressOf,
  saveProgress,
  tenantsFrom,
  writeTerms,
} from "../../store/queries/search-terms.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SearchTermRow } from "../../store/schema/tables.ts";
import { ownerOf, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { keyTerms, tenantTerms } from "./terms.ts";

/** Keys or tenants of one transaction, and projects: every other writer waits for it. */
const STEP_RECORDS = 100;
/** A search that finds the index behind waits this long for it; the job continues with what is left. */
const SEARCH_WAIT_MS = 2 * SECOND_MS;
const PROJECTS_AT_ONCE = 500;
const SKIPS_MAX = 5;
/** Sorts after every id. */
const DONE = "~";
/** The version once all tenants are indexed: new ones are indexed in the transaction that creates them. */
const ALL_TENANTS = Number.MAX_SAFE_INTEGER;

type Behind = { id: string; workspace_id: string; policy_version: number; version: number; last_id: string };

const isBehind = (project: Behind): boolean => project.version < project.policy_version || project.last_id !== DONE;

/** Before a search. Refuses it while the index lacks very many records, as after an upgrade. */
export async function requireIndexed(ctx: Ctx<Vendor>): Promise<void> {
  const { services, actor } = ctx;
  const { clock, worker } = services;
  const { workspace_id } = actor;
  const until = clock.steady() + SEARCH_WAIT_MS;
  await worker.searchPasses.get(workspace_id)?.catch(() => {}); // it may have begun before the newest key
  const startPass = (): Promise<boolean> => {
    const pass = indexWorkspace(services, workspace_id, { until, owner: ownerOf(actor) });
    const ended = pass.finally(() => worker.searchPasses.delete(workspace_id));
    worker.searchPasses.set(workspace_id, ended);
    return ended;
  };
  while (!(await (worker.searchPasses.get(workspace_id) ?? startPass())))
    if (clock.steady() >= until) throw fail("search_indexing");
  await ctx.requireStillValid?.(); // it may have waited
}

/** One pass, which the searches of a workspace share. False when it took too long. */
async function indexWorkspace(
  services: Services,
  workspace_id: string,
  { until, owner }: { until: number; owner: Owner },
): Promise<boolean> {
  const { store, clock } = services;
  const isLate = (): boolean => clock.steady() >= until;
  while (!(await indexTenants(services, workspace_id, owner))) if (isLate()) return false;
  const behind = (await indexedProjects.all(store.read, { workspace_id })).filter(isBehind);
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
    const behind = projects.filter(isBehind);
    worker.searchBacklog = behind.reduce((sum, each) => sum + each.policy_version - Math.max(0, each.version), 0);
    for (const project of behind) {
      while (!shutdown.signal.aborted && !(await indexTenants(services, project.workspace_id)));
      const only = [project];
      while (!shutdown.signal.aborted && !(await indexKeys(services, only)));
    }
    if (projects.length < PROJECTS_AT_ONCE) break;
    after = projects.at(-1)?.id ?? after;
  }
  worker.searchBacklog = 0;
}

/**
 * One step. True when the keys of these projects are all indexed, else `projects` begins where the next step does.
 * Projects share a step, because a workspace may have a few new keys in each of very many.
 */
async function indexKeys(services: Services, projects: Behind[], owner?: Owner): Promise<boolean> {
  if (projects.length === 0) return true;
  const { done, next } = await record(services, (tx) => writeStep(tx, projects), { owner });
  projects.splice(0, next ? done + 1 : done, ...(next ? [next] : []));
  return projects.length === 0;
}

/** `done`: the number of projects that are all indexed; `next`: what the one after them still lacks. */
async function writeStep(tx: Tx, projects: readonly Behind[]): Promise<{ done: number; next: Behind | null }> {
  const terms: SearchTermRow[] = [];
  let [room, done, next] = [STEP_RECORDS, 0, null as Behind | null];
  for (const project of projects.slice(0, STEP_RECORDS)) {
    const { id: project_id, workspace_id, version, last_id } = project;
    const keys = await changedKeys.all(tx, { project_id, version, last_id, limit: room });
    terms.push(...keys.flatMap((key) => keyTerms(workspace_id, key)));
    const last = keys.at(-1);
    const isDone = keys.length < room;
    const place = isDone
      ? { version: Math.max(project.policy_version, last?.policy_version ?? 0), last_id: DONE }
      : { version: last?.policy_version ?? version, last_id: last?.id ?? last_id };
    await saveProgress.run(tx, { id: project_id, ...place });
    if (!isDone) {
      next = { ...project, ...place };
      break;
    }
    done++;
    room -= keys.length;
  }
  await writeTerms(tx, sorted(terms));
  return { done, next };
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
