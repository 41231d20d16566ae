// Revoking a key: what it is used for, then the verifiers as they acknowledge it.
import { useState } from "preact/hooks";
import { formatNumber, formatRelative } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { serverNow } from "../api/clock.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { TextField } from "../forms/field.tsx";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { toast } from "../shell/toasts.tsx";
import { Propagation } from "./propagation.tsx";
import { keyTitle, type ApiKey } from "./state.ts";

const DAYS = 30;

/** What stops working. */
function Impact({ of }: { of: ApiKey }) {
  const { data } = useRead("GET /v1/keys/{id}/usage", { params: { id: of.id }, query: { days: DAYS } }).answer.value;
  if (!data) return <p class="muted">Looking up how much it is used…</p>;
  const requests = data.data.reduce((sum, day) => sum + day.requests, 0);
  if (requests === 0) return <p>Not used in the last {DAYS} days.</p>;
  const last =
    of.last_used_at === null ? "" : `, last used ${formatRelative(Date.parse(of.last_used_at), serverNow())}`;
  return (
    <p>
      <strong>{formatNumber(requests)} requests</strong> in the last {DAYS} days{last}.
    </p>
  );
}

export function RevokeKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const [revoked, setRevoked] = useState(false);
  if (revoked)
    return (
      <Dialog title="Key revoked" onClose={onClose} changes>
        <Propagation projectId={of.project_id} />
        <div class="buttons">
          <Button kind="primary" autofocus onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  return (
    <Confirm
      title={
        <>
          Revoke <bdi>{keyTitle(of)}</bdi>
        </>
      }
      submit="Revoke key"
      changes
      onClose={onClose}
      fields={<TextField name="reason" label="Reason" optional hint="Kept in the audit log." />}
      send={async ({ reason = "" }) => {
        const body = reason === "" ? {} : { reason };
        await call("POST /v1/keys/{id}/revoke", { params: { id: of.id }, query: {}, body });
        refreshReads("/v1/keys");
        toast("Key revoked.");
        setRevoked(true);
      }}
    >
      <Impact of={of} />
      <p>Requests with this key are refused from then on. This cannot be undone.</p>
    </Confirm>
  );
}
