// Suspending a tenant for a while, and resuming it.
import { useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { TextField } from "../forms/field.tsx";
import { KeysThatStop } from "../parts/keys-that-stop.tsx";
import { toast } from "../shell/toasts.tsx";
import type { Tenant } from "./tenant-dialogs.tsx";

export function SuspendTenant({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  // The record changes below the dialog; what was asked for does not.
  const [resumes] = useState(tenant.suspended_at !== null);
  const send = async ({ reason = "" }: { reason?: string }): Promise<void> => {
    const target = { params: { id: tenant.id }, query: {} };
    const changed = resumes
      ? await call("POST /v1/tenants/{id}/resume", { ...target, body: {} })
      : await call("POST /v1/tenants/{id}/suspend", { ...target, body: reason === "" ? {} : { reason } });
    refreshReads("/v1/");
    const keys = plural(changed.affected_keys, "key");
    toast(resumes ? `Tenant resumed. ${keys} admitted again.` : `Tenant suspended. ${keys} refused.`);
    onClose();
  };
  const verb = resumes ? "Resume" : "Suspend";
  return (
    <Confirm
      title={
        <>
          {verb} <bdi>{tenant.name ?? tenant.external_id}</bdi>
        </>
      }
      submit={`${verb} tenant`}
      changes
      onClose={onClose}
      fields={!resumes && <TextField name="reason" label="Reason" optional hint="Kept in the audit log." />}
      send={send}
    >
      <p>
        {resumes
          ? "Requests with this tenant's keys are admitted again, except where a key itself is disabled, expired or revoked."
          : "Requests with any key of this tenant are refused until it is resumed, in live and in test."}
      </p>
      {!resumes && <KeysThatStop of={{ tenant_id: tenant.id }} />}
    </Confirm>
  );
}
