// Dialogs that create, change and delete a tenant, and end its embed tokens.
import { useMemo, useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { fieldProblem } from "../api/problems.ts";
import { refreshReads } from "../api/query.ts";
import { tenantLabel, type Tenant } from "../api/records.ts";
import { Confirm } from "../forms/confirm.tsx";
import { TextAreaField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { hrefTo } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { KeysThatStop } from "../components/keys-that-stop.tsx";
import { go } from "../routes.ts";
import { changesOf, hasChanged, tenantProjects } from "../keys/policy-change.ts";
import { PropagationDialog } from "../keys/propagation.tsx";
import { AddressFields, tenantAddressesOf } from "../keys/addresses.tsx";
import { PlanField, planIdOf } from "./plan-field.tsx";
import { toast } from "../shell/toasts.tsx";

type DialogProps = { tenant: Tenant; onClose: () => void };

const META_HINT = "Your own data about this customer, as a JSON object.";

function metaOf({ meta = "" }: Values): Tenant["meta"] {
  try {
    return meta === "" ? {} : (JSON.parse(meta) as Tenant["meta"]);
  } catch {
    throw fieldProblem("meta", "is not JSON");
  }
}

export const metaText = (meta: Tenant["meta"]): string =>
  Object.keys(meta).length === 0 ? "" : JSON.stringify(meta, null, 2);

type CreateProps = {
  onClose: () => void;
  /** What happens then; its page opens by default. */
  onCreated?: (tenant: Tenant) => void;
};

const openTenant = ({ id }: Tenant): void => go(hrefTo("tenants", { id }));

export function CreateTenant({ onClose, onCreated = openTenant }: CreateProps) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const { external_id = "", name = "" } = values;
    const plan_id = planIdOf(values);
    const body = { external_id, meta: metaOf(values), ...(name !== "" && { name }), ...(plan_id && { plan_id }) };
    const created = await call("POST /v1/tenants", { body, idempotencyKey });
    refreshReads("/v1/tenants");
    toast("Tenant created.");
    onClose();
    onCreated(created);
  };
  return (
    <Dialog title="Create tenant" onClose={onClose} env="both">
      <p class="muted">A tenant is one of your customers. Its keys, limits and usage belong together.</p>
      <Form submit="Create tenant" send={send} onCancel={onClose}>
        <TextField
          name="external_id"
          label="External id"
          mono
          hint="Your own id for this customer. It cannot change."
        />
        <TextField name="name" label="Name" optional />
        <PlanField />
        <TextAreaField name="meta" label="Meta" optional mono hint={META_HINT} />
      </Form>
    </Dialog>
  );
}

const NODE_FIELDS = ["plan_id", "allowed_cidrs", "ip_mode"] as const;

export function EditTenant({ tenant, onClose }: DialogProps) {
  // The record changes below the dialog.
  const [before] = useState(tenant);
  const [followed, setFollowed] = useState<readonly string[] | null>(null);
  const send = async (values: Values): Promise<void> => {
    const plan_id = planIdOf(values);
    const rules = { ...(plan_id !== undefined && { plan_id }), ...tenantAddressesOf(values, before) };
    const body = changesOf(before, { name: values.name || null, meta: metaOf(values), ...rules });
    const after = await call("PATCH /v1/tenants/{id}", { params: { id: tenant.id }, body });
    refreshReads("/v1/");
    const reachesNodes = hasChanged<Tenant>(before, after, NODE_FIELDS);
    const projects = reachesNodes ? await tenantProjects(tenant.id).catch(() => []) : [];
    toast("Tenant saved.", projects.length === 0);
    if (projects.length > 0) setFollowed(projects);
    else onClose();
  };
  if (followed) return <PropagationDialog title="Tenant saved" projectIds={followed} onClose={onClose} />;
  return (
    <Dialog title="Edit tenant" onClose={onClose} env="both">
      <Form submit="Save" send={send} onCancel={onClose}>
        <TextField name="name" label="Name" optional value={before.name ?? ""} />
        <PlanField value={before.plan_id} />
        <AddressFields of={before} />
        <TextAreaField name="meta" label="Meta" optional mono rows={6} value={metaText(before.meta)} hint={META_HINT} />
      </Form>
    </Dialog>
  );
}

export function EndEmbedTokens({ tenant, onClose }: DialogProps) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (): Promise<void> => {
    const params = { id: tenant.id };
    await call("POST /v1/tenants/{id}/embed_tokens/revoke", { params, body: {}, idempotencyKey });
    refreshReads("/v1/tenants");
    toast("Embed tokens ended.");
    onClose();
  };
  return (
    <Confirm title="End embed tokens" submit="End embed tokens" send={send} onClose={onClose} env="both">
      <p>
        People of this tenant who have the portal open lose access until your backend gives them a new token. Keys keep
        working.
      </p>
    </Confirm>
  );
}

export function DeleteTenant({ tenant, onClose }: DialogProps) {
  const send = async (): Promise<void> => {
    const deleted = await call("DELETE /v1/tenants/{id}", { params: { id: tenant.id } });
    onClose();
    go(hrefTo("tenants"), { replace: true });
    refreshReads("/v1/");
    toast(`Tenant deleted. ${plural(deleted.revoked_keys, "key")} revoked.`);
  };
  return (
    <Confirm
      title="Delete tenant"
      submit="Delete tenant"
      typed={tenant.external_id}
      send={send}
      onClose={onClose}
      env="both"
    >
      <p>
        The tenant <bdi>{tenantLabel(tenant)}</bdi> is deleted, in live and in test. This cannot be undone.
      </p>
      <KeysThatStop of={{ tenant_id: tenant.id }} />
    </Confirm>
  );
}
