// The refusal at a maximum number of records; it is counted for the owner that met it.
import { fail, type Failure } from "../../kernel/errors.ts";
import { ownerOf } from "./actor.ts";
import type { Ctx } from "./context.ts";

export function recordLimitReached({ services, actor }: Ctx): Failure {
  services.shares.of("quotas").countRefusal(ownerOf(actor));
  return fail("quota_reached");
}
