// The live/test boundary (docs/design/0007-live-test-boundary.md): a test principal cannot see or touch live records.
// And the projects of a restricted secret key: to that key, no other project exists.
import { fail, failField, type FailureName } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { PageKey } from "../../store/queries/page.ts";
import { requireFuture, type Clock } from "./clock.ts";
import { confinedTo, projectsOf, type Actor } from "./actor.ts";

/** Rejects a test principal that names the live environment. */
export function requireEnvAccess(actor: Actor, env: Env): void {
  if (confinedTo(actor) === "test" && env === "live") throw fail("test_cannot_live");
}

/** The environment to list: the requested one, or the one the actor is confined to. */
export function visibleEnv(actor: Actor, requested: Env | undefined): Env | undefined {
  if (requested) requireEnvAccess(actor, requested);
  return requested ?? confinedTo(actor) ?? undefined;
}

export function reachesProject(actor: Actor, project_id: string): boolean {
  return projectsOf(actor)?.includes(project_id) ?? true;
}

/** Rejects a project that the actor's secret key is not for. */
export function requireProjectAccess(actor: Actor, project_id: string): void {
  if (!reachesProject(actor, project_id)) throw fail("project_not_found");
}

/** Records of a project carry its id. */
type Placed = { env?: Env; project_id?: string };

function isHidden(actor: Actor, { env, project_id }: Placed): boolean {
  if (confinedTo(actor) === "test" && env === "live") return true;
  return project_id !== undefined && !reachesProject(actor, project_id);
}

/** The record, if this actor may read it. To a test principal a live record does not exist. */
export function requireReadable<R extends Placed>(actor: Actor, row: R | undefined, missing: FailureName): R {
  if (!row || isHidden(actor, row)) throw fail(missing);
  return row;
}

/** The record, if this actor may change it. For a live record a test principal gets 403, not 404. */
export function requireManageable<R extends Placed & { env: Env }>(
  actor: Actor,
  row: R | undefined,
  missing: FailureName,
): R {
  if (!row || (row.project_id !== undefined && !reachesProject(actor, row.project_id))) throw fail(missing);
  requireEnvAccess(actor, row.env);
  return row;
}

/**
 * Rejects a new record that the actor may not place there. An expiry that has passed is reported first, as every
 * invalid field is; where the actor may, `mutate` checks it, because a retry after the expiry gets the stored response.
 */
export function requirePlaceable(
  actor: Actor,
  clock: Clock,
  record: { env: Env; project_id?: string; expires_at?: number | null | undefined },
): void {
  if (isHidden(actor, record)) requireFuture(clock, record.expires_at);
  requireEnvAccess(actor, record.env);
  if (record.project_id !== undefined) requireProjectAccess(actor, record.project_id);
}

/** A record of a list, with what decides whether an actor may see it. */
export type NamedRecord = PageKey & Placed;

/** The list position after the record named by `after`, which must not be hidden from the actor. */
export function positionAfter(actor: Actor, row: NamedRecord | undefined): PageKey {
  if (!row || isHidden(actor, row))
    throw failField("invalid_query", "after", "must be the id of a record in this list");
  return { created_at: row.created_at, id: row.id };
}
