// Log lines about what an attacker may repeat at will: in full only as often as its network may, then as one summary.
import { networkOwner } from "../../fairness/owners.ts";
import type { RequestSource, Services } from "./context.ts";

export function warnOfAttempt(
  { log, securityLog }: Services,
  event: string,
  fields: Record<string, string>,
  from: RequestSource | undefined,
): void {
  if (from && !securityLog.admits(networkOwner(from.network).id, event, from.request_id)) return;
  log.warn(event, { ...fields, ...from });
}
