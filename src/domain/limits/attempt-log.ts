// Log lines about what an attacker may repeat at will: in full only as often as its network may, then as one summary.
import { networkOwner } from "../../fairness/owners.ts";
import type { RequestSource, Services } from "../core/context.ts";

export function warnOfAttempt(
  { log, securityLines }: Services,
  event: string,
  fields: Record<string, string>,
  from: RequestSource | undefined,
): void {
  if (from && !securityLines.admits(networkOwner(from.network).id, event, from.request_id)) return;
  log.warn(event, { ...fields, ...from });
}
