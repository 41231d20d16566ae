// Changing a key's name, scopes, expiry and limits.
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { toast } from "../shell/toasts.tsx";
import { ExpiryField, expiryOf, LimitsField, limitsOf, ScopesField, scopesOf } from "./key-fields.tsx";
import { useProjects } from "./records.ts";
import type { ApiKey } from "./state.ts";

export function EditKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const project = useProjects().find(({ id }) => id === of.project_id);
  const send = async (values: Values): Promise<void> => {
    const expires_at = expiryOf(values);
    const body = {
      name: values.name === "" ? null : (values.name ?? null),
      scopes: scopesOf(values),
      rate_limits: limitsOf(values),
      ...(expires_at !== undefined && { expires_at }),
    };
    await call("PATCH /v1/keys/{id}", { params: { id: of.id }, body });
    refreshReads("/v1/keys");
    toast("Key saved.");
    onClose();
  };
  return (
    <Dialog title="Edit key" onClose={onClose} changes>
      <Form submit="Save" send={send} actions={<Button onClick={onClose}>Cancel</Button>}>
        <TextField name="name" label="Name" optional value={of.name ?? ""} />
        <ScopesField key={project?.id} value={of.scopes} catalogue={project?.scope_catalogue ?? []} />
        <ExpiryField key={`expiry ${project?.id}`} current={of.expires_at} policy={project?.key_policy} />
        <LimitsField current={of.rate_limits} inherited={project?.default_rate_limits ?? null} />
      </Form>
    </Dialog>
  );
}
