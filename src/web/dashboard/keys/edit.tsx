// Changing a key's name, scopes, expiry, limits and networks.
import { call } from "../api/call.ts";
import { TextField } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { EditDialog } from "../records/dialogs.tsx";
import { AddressFields, addressesOf } from "./addresses.tsx";
import { ExpiryField, expiryOf, LimitsField, limitsOf, ScopesField, scopesOf } from "./key-fields.tsx";
import { useInherited } from "./inherited.ts";
import { changesOf } from "./policy-change.ts";
import { useProjectsRead } from "../api/records.ts";
import type { ApiKey } from "./state.ts";

async function save(of: ApiKey, values: Values): Promise<ApiKey> {
  const expires_at = expiryOf(values);
  const scopes = scopesOf(values);
  const isSameSet = scopes.length === of.scopes.length && scopes.every((scope) => of.scopes.includes(scope));
  const body = changesOf(of, {
    name: values.name || null,
    scopes: isSameSet ? of.scopes : scopes,
    rate_limits: limitsOf(values),
    ...addressesOf(values, of),
    ...(expires_at !== undefined && { expires_at }),
  });
  return call("PATCH /v1/keys/{id}", { params: { id: of.id }, body });
}

export function EditKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  // Scopes and expiry depend on the project: what it offers must not change below what is typed.
  const read = useProjectsRead();
  const project = read.state.value.data?.find(({ id }) => id === of.project_id);
  const inherited = useInherited(project, of.tenant_id);
  return (
    <EditDialog
      what="key"
      of={of}
      env={of.env}
      needs={read}
      save={(values) => save(of, values)}
      nodeFields={["scopes", "rate_limits", "expires_at", "allowed_cidrs", "ip_mode"]}
      projects={() => [of.project_id]}
      onClose={onClose}
    >
      <TextField name="name" label="Name" optional value={of.name ?? ""} />
      <ScopesField value={of.scopes} project={project} />
      <ExpiryField current={of.expires_at} policy={project?.key_policy} />
      <LimitsField current={of.rate_limits} inherited={inherited} />
      <AddressFields of={of} isKey />
    </EditDialog>
  );
}
