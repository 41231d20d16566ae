// Looks at the credential of a running stream or wait, from time to time, while it runs.
import { Failure } from "../../kernel/errors.ts";
import type { Ctx } from "./context.ts";

/** Calls `end` if the credential has ended, but not if that cannot be found out, as without the database. */
export function endIfInvalid(ctx: Ctx, end: () => void): void {
  ctx.requireStillValid?.().catch((error) => {
    if (error instanceof Failure && error.status < 500) end();
  });
}
