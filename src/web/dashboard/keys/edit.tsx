// Changing a key's name, scopes, expiry, limits and networks.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { toast } from "../shell/toasts.tsx";
import { AddressFields, addressesOf } from "./addresses.tsx";
import { ExpiryField, expiryOf, LimitsField, limitsOf, ScopesField, scopesOf } from "./key-fields.tsx";
import { useInherited } from "./inherited.ts";
import { changesOf, hasChanged } from "./policy-change.ts";
import { PropagationDialog } from "./propagation.tsx";
import { useProjectsRead, type Project } from "../api/records.ts";
import type { ApiKey } from "./state.ts";

const NODE_FIELDS = ["scopes", "rate_limits", "expires_at", "allowed_cidrs", "ip_mode"] as const;

/** Scopes and expiry depend on the project: what it offers must not change below what is typed. */
function Fields({ of, project }: { of: ApiKey; project: Project | undefined }) {
  return (
    <>
      <TextField name="name" label="Name" optional value={of.name ?? ""} />
      <ScopesField value={of.scopes} project={project} />
      <ExpiryField current={of.expires_at} policy={project?.key_policy} />
      <LimitsField current={of.rate_limits} inherited={useInherited(project, of.tenant_id)} />
      <AddressFields of={of} isKey />
    </>
  );
}

export function EditKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const [saved, setSaved] = useState(false);
  // The record changes below the dialog.
  const [before] = useState(of);
  const read = useProjectsRead();
  const send = async (values: Values): Promise<void> => {
    const expires_at = expiryOf(values);
    const scopes = scopesOf(values);
    const isSameSet = scopes.length === before.scopes.length && scopes.every((scope) => before.scopes.includes(scope));
    const body = changesOf(before, {
      name: values.name || null,
      scopes: isSameSet ? before.scopes : scopes,
      rate_limits: limitsOf(values),
      ...addressesOf(values, before),
      ...(expires_at !== undefined && { expires_at }),
    });
    const after = await call("PATCH /v1/keys/{id}", { params: { id: of.id }, body });
    refreshReads("/v1/keys");
    const isFollowed = hasChanged<ApiKey>(before, after, NODE_FIELDS);
    toast("Key saved.", !isFollowed);
    if (isFollowed) setSaved(true);
    else onClose();
  };
  if (saved) return <PropagationDialog title="Key saved" projectIds={[of.project_id]} env={of.env} onClose={onClose} />;
  return (
    <Dialog title="Edit key" onClose={onClose} env={of.env}>
      <Loaded read={read}>
        {(projects) => (
          <Form submit="Save" send={send} onCancel={onClose}>
            <Fields of={before} project={projects.find(({ id }) => id === of.project_id)} />
          </Form>
        )}
      </Loaded>
    </Dialog>
  );
}
