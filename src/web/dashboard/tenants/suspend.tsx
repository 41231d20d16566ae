// Suspending a tenant for a while, and resuming it.
import { useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { tenantLabel, type Tenant } from "../api/records.ts";
import { Confirm } from "../forms/confirm.tsx";
import { ReasonField, reasonOf } from "../forms/common-fields.tsx";
import type { Values } from "../forms/form.tsx";
import { tenantProjects } from "../keys/policy-change.ts";
import { PropagationDialog } from "../keys/propagation.tsx";
import { KeysThatStop } from "../records/keys-that-stop.tsx";
import { Named } from "../components/text.tsx";
import { toast } from "../shell/toasts.tsx";

export function SuspendTenant({ of, onClose }: { of: Tenant; onClose: () => void }) {
  const resumes = of.suspended_at !== null;
  const [followed, setFollowed] = useState<readonly string[] | null>(null);
  const send = async (values: Values): Promise<void> => {
    const target = { params: { id: of.id }, query: {} };
    const changed = resumes
      ? await call("POST /v1/tenants/{id}/resume", { ...target, body: {} })
      : await call("POST /v1/tenants/{id}/suspend", { ...target, body: reasonOf(values) });
    refreshReads("/v1/");
    const keys = plural(changed.affected_keys, "key");
    // It is done, whether this read succeeds or not.
    const projects = await tenantProjects(of.id).catch(() => []);
    toast(
      resumes ? `Tenant resumed. ${keys} allowed again.` : `Tenant suspended. ${keys} refused.`,
      projects.length === 0,
    );
    if (projects.length > 0) setFollowed(projects);
    else onClose();
  };
  if (followed)
    return (
      <PropagationDialog
        title={resumes ? "Tenant resumed" : "Tenant suspended"}
        projectIds={followed}
        onClose={onClose}
      />
    );
  const verb = resumes ? "Resume" : "Suspend";
  return (
    <Confirm
      title={<Named verb={verb} name={tenantLabel(of)} />}
      submit={`${verb} tenant`}
      submitKind={resumes ? "primary" : "danger"}
      env="both"
      onClose={onClose}
      fields={!resumes && <ReasonField />}
      send={send}
    >
      <p>
        {resumes
          ? "Requests with this tenant's keys are allowed again, except where a key itself is disabled, expired or revoked."
          : "Requests with any key of this tenant are refused until it is resumed, in live and in test."}
      </p>
      {!resumes && <KeysThatStop of={{ tenant_id: of.id }} />}
    </Confirm>
  );
}
