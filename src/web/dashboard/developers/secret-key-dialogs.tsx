// Dialogs that create, rotate and revoke a secret key.
import { useMemo, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { formatAbsolute } from "../../shared/format.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { serverNow } from "../api/clock.ts";
import { refreshReads } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { SelectField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { env } from "../here.ts";
import { ExpiryField, expiryOf } from "../keys/key-fields.tsx";
import { OVERLAPS } from "../keys/rotate.tsx";
import { keyTitle } from "../keys/state.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { SecretDialog } from "../parts/secret.tsx";
import { Time } from "../parts/time.tsx";
import { toast } from "../shell/toasts.tsx";
import { PermissionsField, permissionsOf } from "./permissions.tsx";

export type SecretKey = RouteOutput<"GET /v1/secret_keys/{id}">;
type DialogProps = { of: SecretKey; onClose: () => void };

const VARIABLE = "KEYRACK_SECRET_KEY";
const HOUR_MS = 3_600_000;

export function CreateSecretKey({ onClose }: { onClose: () => void }) {
  const [secret, setSecret] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string>(env.value);
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const { name = "" } = values;
    const expires_at = expiryOf(values);
    const body = {
      env: chosen === "test" ? ("test" as const) : ("live" as const),
      ...(name !== "" && { name }),
      ...(expires_at && { expires_at }),
      ...permissionsOf(values),
    };
    const made = await call("POST /v1/secret_keys", { body, idempotencyKey });
    refreshReads("/v1/secret_keys");
    setSecret(made.key);
  };
  if (secret !== null)
    return (
      <SecretDialog secret={secret} variable={VARIABLE} onDone={onClose}>
        <p>Your backend sends it to Keyrack. It must never reach a browser or a customer.</p>
      </SecretDialog>
    );
  return (
    <Dialog title="Create secret key" onClose={onClose} changes>
      <p class="muted">A secret key lets your backend verify keys and manage this workspace.</p>
      <Form submit="Create secret key" send={send} actions={<Button onClick={onClose}>Cancel</Button>}>
        <SelectField
          name="env"
          label="Environment"
          options={[
            ["live", "Live"],
            ["test", "Test"],
          ]}
          value={chosen}
          onChange={setChosen}
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
  const [overlap, setOverlap] = useState("24");
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (): Promise<void> => {
    const input = { params: { id: of.id }, body: { overlap_hours: Number(overlap) }, idempotencyKey };
    setMade(await call("POST /v1/secret_keys/{id}/rotate", input));
    refreshReads("/v1/secret_keys");
  };
  if (made)
    return (
      <SecretDialog secret={made.key} variable={VARIABLE} onDone={onClose}>
        <p>
          Put it in place of the old one, which stops working <Time at={made.previous_key.expires_at} focusable />.
        </p>
      </SecretDialog>
    );
  const until = formatAbsolute(serverNow() + Number(overlap) * HOUR_MS);
  return (
    <Dialog
      title={
        <>
          Rotate <bdi>{keyTitle(of)}</bdi>
        </>
      }
      onClose={onClose}
    >
      <Form submit="Rotate key" send={send} watch={false} actions={<Button onClick={onClose}>Cancel</Button>}>
        <SelectField
          name="overlap_hours"
          label="The old key keeps working for"
          options={OVERLAPS}
          value={overlap}
          onChange={setOverlap}
          hint={overlap === "0" ? "The old key stops working at once." : `The old key works until ${until}.`}
        />
      </Form>
    </Dialog>
  );
}

export function RevokeSecretKey({ of, onClose }: DialogProps) {
  const send = async ({ reason = "" }: Values): Promise<void> => {
    const body = reason === "" ? {} : { reason };
    await call("POST /v1/secret_keys/{id}/revoke", { params: { id: of.id }, body });
    refreshReads("/v1/secret_keys");
    toast("Secret key revoked.");
    onClose();
  };
  return (
    <Confirm
      title={
        <>
          Revoke <bdi>{keyTitle(of)}</bdi>
        </>
      }
      submit="Revoke key"
      fields={<TextField name="reason" label="Reason" optional hint="Kept in the audit log." />}
      send={send}
      onClose={onClose}
    >
      <p>
        Last used <Time at={of.last_used_at} none="never" focusable />. Backends and nodes that use it lose access at
        once; nodes keep verifying with the policy they have. This cannot be undone.
      </p>
    </Confirm>
  );
}
