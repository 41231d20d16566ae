// The audit log over HTTP: its checkpoint and all its rows.
import type { RouteOutput } from "../../../client.ts";
import { fetchJson, isFailure, request, toExitError, type Target } from "../../api/request.ts";
import { ExitError } from "../../ui/output.ts";

type LogRow = Record<string, unknown> & { seq: number; workspace_id: string };

export async function fetchCheckpoint(target: Target): Promise<{ note: string; vkey: string }> {
  const response = await request(target, { method: "GET", path: "/v1/audit_logs/checkpoint" });
  if (isFailure(response)) throw toExitError(response);
  return { note: response.text, vkey: String(response.headers["audit-vkey"] ?? "") };
}

export function refusePartialView({ bearer }: Target): void {
  if (bearer?.startsWith("krsk_test_"))
    throw new ExitError(
      "A test secret key sees only part of the log. Use a live secret key, a session or --offline.",
      2,
    );
}

/** Passes every row behind `from` to `take`, page by page. Refuses a credential that would see only some of them. */
export async function readLog(target: Target, take: (row: LogRow) => void, from = 0): Promise<void> {
  refusePartialView(target);
  const { id: workspace_id } = await fetchJson(target, "GET /v1/workspace", {});
  for (let after: number | undefined = from; after !== undefined; ) {
    const query = { after_seq: after, limit: 200 };
    const page: RouteOutput<"GET /v1/audit_logs"> = await fetchJson(target, "GET /v1/audit_logs", { query });
    for (const { actor: _resolved, ...row } of page.data) take({ ...row, workspace_id });
    after = page.has_more ? page.data.at(-1)?.seq : undefined;
  }
}
