// Dialogs that create, change and delete a tenant, and end its embed tokens.
import { useMemo } from "preact/hooks";
import { call, newIdempotencyKey } from "../api/call.ts";
import { fieldProblem } from "../api/problems.ts";
import { refreshReads } from "../api/query.ts";
import { tenantLabel, type Tenant } from "../api/records.ts";
import { KeysThatStop } from "../records/keys-that-stop.tsx";
import { Confirm } from "../forms/confirm.tsx";
import { TextAreaField, TextField } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { CreateDialog, DeleteDialog, EditDialog } from "../records/dialogs.tsx";
import { AddressFields, tenantAddressesOf } from "../keys/addresses.tsx";
import { changesOf, tenantProjects } from "../keys/policy-change.ts";
import { toast } from "../shell/toasts.tsx";
import { PlanField, planIdOf } from "./plan-field.tsx";

type DialogProps = { of: Tenant; onClose: () => void };

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

type CreateProps = { onClose: () => void; onCreated?: (tenant: Tenant) => void };

export function CreateTenant({ onClose, onCreated }: CreateProps) {
  return (
    <CreateDialog
      what="tenant"
      lead="A tenant is one of your customers. Its keys, limits and usage belong together."
      send={async (values, idempotencyKey) => {
        const { external_id = "", name = "" } = values;
        const plan_id = planIdOf(values);
        const body = { external_id, meta: metaOf(values), ...(name !== "" && { name }), ...(plan_id && { plan_id }) };
        return call("POST /v1/tenants", { body, idempotencyKey });
      }}
      onCreated={onCreated}
      onClose={onClose}
    >
      <TextField name="external_id" label="External id" mono hint="Your own id for this customer. It cannot change." />
      <TextField name="name" label="Name" optional />
      <PlanField />
      <TextAreaField name="meta" label="Meta" optional mono hint={META_HINT} />
    </CreateDialog>
  );
}

export function EditTenant({ of, onClose }: DialogProps) {
  return (
    <EditDialog<Tenant>
      what="tenant"
      of={of}
      save={async (values) => {
        const plan_id = planIdOf(values);
        const rules = { ...(plan_id !== undefined && { plan_id }), ...tenantAddressesOf(values, of) };
        const body = changesOf(of, { name: values.name || null, meta: metaOf(values), ...rules });
        return call("PATCH /v1/tenants/{id}", { params: { id: of.id }, body });
      }}
      nodeFields={["plan_id", "allowed_cidrs", "ip_mode"]}
      projects={() => tenantProjects(of.id)}
      onClose={onClose}
    >
      <TextField name="name" label="Name" optional value={of.name ?? ""} />
      <PlanField value={of.plan_id} />
      <AddressFields of={of} />
      <TextAreaField name="meta" label="Meta" optional mono rows={6} value={metaText(of.meta)} hint={META_HINT} />
    </EditDialog>
  );
}

export function EndEmbedTokens({ of, onClose }: DialogProps) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (): Promise<void> => {
    const params = { id: of.id };
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

export function DeleteTenant({ of, onClose }: DialogProps) {
  return (
    <DeleteDialog
      what="tenant"
      name={tenantLabel(of)}
      typed={of.external_id}
      send={() => call("DELETE /v1/tenants/{id}", { params: { id: of.id } })}
      onClose={onClose}
    >
      <KeysThatStop of={{ tenant_id: of.id }} />
    </DeleteDialog>
  );
}
