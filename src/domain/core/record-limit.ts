// The refusal at a maximum number of records; it is counted for the owner that met it.
import { fail, type Failure } from "../../kernel/errors.ts";
import { ownerOf } from "./actor.ts";
import type { Ctx } from "./context.ts";

export function recordLimitReached(ctx: Ctx): Failure {
  countRecordRefusal(ctx);
  return fail("quota_reached");
}

/** For a maximum that is refused with a failure of its own. */
export function countRecordRefusal({ services, actor }: Ctx): void {
  services.shares.of("quotas").countRefusal(ownerOf(actor));
}
