// Dialogs that create, rotate and revoke a secret key.
import { useMemo, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { keyTitle, type SecretKey } from "../api/records.ts";
import { ReasonField, reasonOf } from "../forms/common-fields.tsx";
import { Confirm } from "../forms/confirm.tsx";
import { SelectField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import type { Env } from "../../../kernel/credentials.ts";
import { env } from "../links.ts";
import { ExpiryField, expiryOf } from "../keys/key-fields.tsx";
import { OverlapField, overlapOf } from "../keys/overlap.tsx";
import { Dialog } from "../components/dialog.tsx";
import { SecretDialog } from "../forms/secret.tsx";
import { Time } from "../components/time.tsx";
import { Named } from "../components/text.tsx";
import { toast } from "../shell/toasts.tsx";
import { PermissionsField, permissionsOf } from "./permissions.tsx";

type DialogProps = { of: SecretKey; onClose: () => void };

const VARIABLE = "KEYRACK_SECRET_KEY";

const newKeyOf = (env: Env, values: Values) => {
  const { name = "" } = values;
  const expires_at = expiryOf(values);
  return { env, ...(name !== "" && { name }), ...(expires_at && { expires_at }), ...permissionsOf(values) };
};

export function CreateSecretKey({ onClose }: { onClose: () => void }) {
  const [secret, setSecret] = useState<string | null>(null);
  const [chosen, setChosen] = useState<Env>(env.value);
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const made = await call("POST /v1/secret_keys", { body: newKeyOf(chosen, values), idempotencyKey });
    refreshReads("/v1/secret_keys");
    setSecret(made.key);
  };
  if (secret !== null)
    return (
      <SecretDialog secret={secret} variable={VARIABLE} env={chosen} onDone={onClose}>
        <p>
          Store it with the other secrets of your backend, which sends it to Keyrack. It must never reach a browser or a
          customer.
        </p>
      </SecretDialog>
    );
  return (
    <Dialog title="Create secret key" onClose={onClose} env={chosen}>
      <p class="muted">A secret key lets your backend verify keys and manage this workspace.</p>
      <Form submit="Create secret key" send={send} onCancel={onClose}>
        <SelectField
          name="env"
          label="Environment"
          options={[
            ["live", "Live"],
            ["test", "Test"],
          ]}
          value={chosen}
          onChange={(value) => setChosen(value === "test" ? "test" : "live")}
          hint={
            chosen === "test" ? "It can only see and change test data." : "It can see and change live and test data."
          }
        />
        <PermissionsField />
        <TextField name="name" label="Name" optional hint="Where it is used, such as Orders backend." />
        <ExpiryField />
      </Form>
    </Dialog>
  );
}

export function RotateSecretKey({ of, onClose }: DialogProps) {
  const [made, setMade] = useState<RouteOutput<"POST /v1/secret_keys/{id}/rotate"> | null>(null);
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const input = { params: { id: of.id }, body: overlapOf(values), idempotencyKey };
    setMade(await call("POST /v1/secret_keys/{id}/rotate", input));
    refreshReads("/v1/secret_keys");
  };
  if (made)
    return (
      <SecretDialog secret={made.key} variable={VARIABLE} env={of.env} onDone={onClose}>
        <p>
          Put it in place of the old one, which stops working <Time at={made.previous_key.expires_at} />.
        </p>
      </SecretDialog>
    );
  return (
    <Dialog title={<Named verb="Rotate" name={keyTitle(of)} />} onClose={onClose} env={of.env}>
      <Form submit="Rotate key" send={send} watch={false} onCancel={onClose}>
        <OverlapField expires_at={of.expires_at} />
      </Form>
    </Dialog>
  );
}

export function RevokeSecretKey({ of, onClose }: DialogProps) {
  const send = async (values: Values): Promise<void> => {
    await call("POST /v1/secret_keys/{id}/revoke", { params: { id: of.id }, body: reasonOf(values) });
    refreshReads("/v1/secret_keys");
    toast("Secret key revoked.");
    onClose();
  };
  return (
    <Confirm
      title={<Named verb="Revoke" name={keyTitle(of)} />}
      submit="Revoke key"
      env={of.env}
      fields={<ReasonField />}
      send={send}
      onClose={onClose}
    >
      <p>
        Last used <Time at={of.last_used_at} none="never" />. Backends and nodes that use it lose access at once; nodes
        keep verifying with the policy they have. This cannot be undone.
      </p>
    </Confirm>
  );
}
