// The boundaries every operation meets: the test environment, and records that are not there for this actor.
import { fail, failField, type FailureName } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { After } from "../../store/queries/page.ts";
import { confinedTo, type Actor } from "./actor.ts";

/** Refuses a test principal that names the live environment. */
export function requireEnvAccess(actor: Actor, env: Env): void {
  if (confinedTo(actor) === "test" && env === "live") throw fail("test_cannot_live");
}

/** The environment a list shows: what was asked for, confined to what the actor may see. */
export function visibleEnv(actor: Actor, asked: Env | undefined): Env | undefined {
  if (asked) requireEnvAccess(actor, asked);
  return asked ?? confinedTo(actor) ?? undefined;
}

/** A record as this actor may read it: another environment's is simply not there (decision 94). */
export function requireReadable<R extends { env: Env }>(actor: Actor, row: R | undefined, missing: FailureName): R {
  if (!row || (confinedTo(actor) === "test" && row.env === "live")) throw fail(missing);
  return row;
}

/** A record as this actor may manage it: another environment's is refused aloud. */
export function requireManageable<R extends { env: Env }>(actor: Actor, row: R | undefined, missing: FailureName): R {
  if (!row) throw fail(missing);
  requireEnvAccess(actor, row.env);
  return row;
}

/** The place in a list behind the record named by `after`; another environment's is not there (decision 94). */
export function positionAfter(actor: Actor, row: (After & { env?: Env }) | undefined): After {
  if (!row || (confinedTo(actor) === "test" && row.env === "live"))
    throw failField("invalid_query", "after", "must be the id of a record in this list");
  return { created_at: row.created_at, id: row.id };
}
