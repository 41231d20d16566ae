// Revoking a key: what it is used for, then the nodes as they acknowledge it.
import { useState } from "preact/hooks";
import { formatRelative, plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { serverNow } from "../api/clock.ts";
import { problemMessage } from "../api/problems.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { keyTitle } from "../api/records.ts";
import { Confirm } from "../forms/confirm.tsx";
import { ReasonField, reasonOf } from "../forms/common-fields.tsx";
import { Named } from "../components/text.tsx";
import { toast } from "../shell/toasts.tsx";
import { PropagationDialog } from "./propagation.tsx";
import type { ApiKey } from "./state.ts";

const DAYS = 30;

/** What stops working. A server without usage series knows days only. */
function Impact({ of }: { of: ApiKey }) {
  const hour = useRead("GET /v1/usage/series", { query: { bucket: "minute", key_id: of.id, env: of.env } }).state.value;
  const days = useRead("GET /v1/keys/{id}/usage", { params: { id: of.id }, query: { days: DAYS } }).state.value;
  if (!days.data && days.problem)
    return <p class="warning">How much it is used could not be looked up. {problemMessage(days.problem)}</p>;
  if (!days.data || !(hour.data || hour.problem)) return <p class="muted">Looking up how much it is used…</p>;
  const lately = hour.data?.total.total.requests ?? 0;
  const all = days.data.data.reduce((sum, day) => sum + day.requests, 0);
  if (lately + all === 0) return <p>Not used in the last {DAYS} days.</p>;
  const last =
    of.last_used_at === null ? "" : `, last used ${formatRelative(Date.parse(of.last_used_at), serverNow())}`;
  return (
    <p>
      <strong>{plural(lately || all, "request")}</strong> in the last {lately > 0 ? "hour" : `${DAYS} days`}
      {last}.
    </p>
  );
}

export function RevokeKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const [revoked, setRevoked] = useState(false);
  if (revoked)
    return <PropagationDialog title="Key revoked" projectIds={[of.project_id]} env={of.env} onClose={onClose} />;
  return (
    <Confirm
      title={<Named verb="Revoke" name={keyTitle(of)} />}
      submit="Revoke key"
      env={of.env}
      onClose={onClose}
      fields={<ReasonField />}
      send={async (values) => {
        await call("POST /v1/keys/{id}/revoke", { params: { id: of.id }, query: {}, body: reasonOf(values) });
        refreshReads("/v1/keys");
        toast("Key revoked.", false);
        setRevoked(true);
      }}
    >
      <Impact of={of} />
      <p>Requests with this key are refused from now on. This cannot be undone.</p>
    </Confirm>
  );
}
