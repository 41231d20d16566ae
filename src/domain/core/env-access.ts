// The live/test boundary (docs/design/0007-live-test-boundary.md): a test principal cannot see or touch live records.
import { fail, failField, type FailureName } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { PageKey } from "../../store/queries/page.ts";
import { confinedTo, type Actor } from "./actor.ts";

/** Rejects a test principal that names the live environment. */
export function requireEnvAccess(actor: Actor, env: Env): void {
  if (confinedTo(actor) === "test" && env === "live") throw fail("test_cannot_live");
}

/** The environment to list: the requested one, or the one the actor is confined to. */
export function visibleEnv(actor: Actor, requested: Env | undefined): Env | undefined {
  if (requested) requireEnvAccess(actor, requested);
  return requested ?? confinedTo(actor) ?? undefined;
}

/** The record, if this actor may read it. To a test principal a live record does not exist. */
export function requireReadable<R extends { env: Env }>(actor: Actor, row: R | undefined, missing: FailureName): R {
  if (!row || (confinedTo(actor) === "test" && row.env === "live")) throw fail(missing);
  return row;
}

/** The record, if this actor may change it. For a live record a test principal gets 403, not 404. */
export function requireManageable<R extends { env: Env }>(actor: Actor, row: R | undefined, missing: FailureName): R {
  if (!row) throw fail(missing);
  requireEnvAccess(actor, row.env);
  return row;
}

/** The list position after the record named by `after`. To a test principal a live record does not exist. */
export function positionAfter(actor: Actor, row: (PageKey & { env?: Env }) | undefined): PageKey {
  if (!row || (confinedTo(actor) === "test" && row.env === "live"))
    throw failField("invalid_query", "after", "must be the id of a record in this list");
  return { created_at: row.created_at, id: row.id };
}
