// Inviting a person, and revoking an invitation. The link is shown once, when the invitation is made.
import { useMemo, useRef, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { SelectField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { serverUrl } from "../here.ts";
import { Button } from "../parts/button.tsx";
import { CopyButton } from "../parts/copy.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Time } from "../parts/time.tsx";
import { toast } from "../shell/toasts.tsx";
import { ROLES, roleOf } from "./member-dialogs.tsx";

export type Invite = RouteOutput<"GET /v1/invites">["data"][number];
type Made = RouteOutput<"POST /v1/invites">;

function Sent({ made, isMailed, onClose }: { made: Made; isMailed: boolean; onClose: () => void }) {
  const ref = useRef<HTMLElement>(null);
  const link = `${serverUrl()}/#/invite?token=${made.token}`;
  return (
    <Dialog title="Invitation created" onClose={onClose}>
      <p>
        {isMailed ? "A link was mailed to" : "This server does not deliver mail. Pass this link on to"}{" "}
        <bdi>{made.email}</bdi>. It expires <Time at={made.expires_at} focusable />.
      </p>
      {isMailed && <p>You can also pass on this link. It is shown only now.</p>}
      <div class="secret">
        <code ref={ref} class="secret-text">
          {link}
        </code>
        <div class="buttons">
          <CopyButton text={link} label="Copy invite link" source={() => ref.current} />
        </div>
      </div>
      <div class="buttons">
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}

export function InviteMember({ isMailed, onClose }: { isMailed: boolean; onClose: () => void }) {
  const [made, setMade] = useState<Made | null>(null);
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const body = { email: values.email ?? "", role: roleOf(values) };
    setMade(await call("POST /v1/invites", { body, idempotencyKey }));
    refreshReads("/v1/invites");
  };
  if (made) return <Sent made={made} isMailed={isMailed} onClose={onClose} />;
  return (
    <Dialog title="Invite" onClose={onClose}>
      <Form submit="Invite" send={send} actions={<Button onClick={onClose}>Cancel</Button>}>
        <TextField name="email" label="Email" type="email" autocomplete="off" />
        <SelectField name="role" label="Role" options={ROLES} value="member" />
      </Form>
    </Dialog>
  );
}

export function RevokeInvite({ invite, onClose }: { invite: Invite; onClose: () => void }) {
  const send = async (): Promise<void> => {
    await call("POST /v1/invites/{id}/revoke", { params: { id: invite.id }, body: {} });
    refreshReads("/v1/invites");
    toast("Invitation revoked.");
    onClose();
  };
  return (
    <Confirm title="Revoke invitation" submit="Revoke invitation" send={send} onClose={onClose}>
      <p>
        The links that were made for <bdi>{invite.email}</bdi> stop working.
      </p>
    </Confirm>
  );
}
