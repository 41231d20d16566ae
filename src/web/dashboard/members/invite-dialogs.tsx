// Inviting a person, and revoking an invitation. The link is shown once, when the invitation is made.
import { useMemo, useRef, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { SelectField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { useUnsaved } from "../api/unsaved.ts";
import { serverUrl } from "../links.ts";
import { Button } from "../components/button.tsx";
import { CopyButton } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Time } from "../components/time.tsx";
import { toast } from "../shell/toasts.tsx";
import { ROLES, roleOf } from "./member-dialogs.tsx";

export type Invite = RouteOutput<"GET /v1/invites">["data"][number];
type Made = RouteOutput<"POST /v1/invites">;

type Mail = RouteOutput<"GET /v1/instance">["mail"];

/** Only a mailed link proves who has the mailbox, so a copied one does not verify the address of a new person. */
function Unmailed({ mail }: { mail: Mail }) {
  return (
    <p>
      {mail === "file" &&
        "For a new person, take the link from the server's mail folder instead: it also verifies the address. "}
      Once a new person has signed up, <code>keyrack user reset-link EMAIL</code> on the server prints a link that
      verifies it.
    </p>
  );
}

/** How a new person gets an account, where the link alone does not give them one. */
function ForNewPeople({ mail }: { mail: Mail }) {
  const isClosed = useRead("GET /v1/setup", {}).state.value.data?.sign_up === "closed";
  if (!isClosed) return mail === "smtp" ? null : <Unmailed mail={mail} />;
  return (
    <p>
      Sign-up is closed on this server. For a new person, <code>keyrack user create EMAIL</code> on the server makes an
      account.
    </p>
  );
}

function Sent({ made, mail, onClose }: { made: Made; mail: Mail; onClose: () => void }) {
  const ref = useRef<HTMLElement>(null);
  const [copied, setCopied] = useState(false);
  // Without mail it is the only copy.
  useUnsaved(mail !== "smtp" && !copied, "link");
  const link = `${serverUrl()}/#/invite?token=${made.token}`;
  return (
    <Dialog title="Invitation created" onClose={onClose}>
      {mail === "smtp" ? (
        <p>
          A link was mailed to <bdi>{made.email}</bdi>. You can also pass on this one.
        </p>
      ) : (
        <p>
          This server does not deliver mail. Send this link to <bdi>{made.email}</bdi>, who needs an account with a
          verified address to use it.
        </p>
      )}
      <ForNewPeople mail={mail} />
      <p>
        The link is shown only once, and expires <Time at={made.expires_at} />.
      </p>
      <div class="secret">
        <code ref={ref} class="secret-text">
          {link}
        </code>
        <div class="buttons">
          <CopyButton
            text={link}
            label="Copy invite link"
            source={() => ref.current}
            onCopied={() => setCopied(true)}
          />
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

/** How this server sends mail; by SMTP until that is known. */
export const useMail = (): Mail => useRead("GET /v1/instance", {}).state.value.data?.mail ?? "smtp";

export function InviteMember({ onClose }: { onClose: () => void }) {
  const mail = useMail();
  const [made, setMade] = useState<Made | null>(null);
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const body = { email: values.email ?? "", role: roleOf(values) };
    setMade(await call("POST /v1/invites", { body, idempotencyKey }));
    refreshReads("/v1/invites");
  };
  if (made) return <Sent made={made} mail={mail} onClose={onClose} />;
  return (
    <Dialog title="Invite" onClose={onClose}>
      <Form submit="Invite" send={send} onCancel={onClose}>
        <TextField name="email" label="Email" type="email" autocomplete="off" />
        <SelectField name="role" label="Role" options={ROLES} value="member" />
      </Form>
    </Dialog>
  );
}

export function RevokeInvite({ of, onClose }: { of: Invite; onClose: () => void }) {
  const send = async (): Promise<void> => {
    await call("POST /v1/invites/{id}/revoke", { params: { id: of.id }, body: {} });
    refreshReads("/v1/invites");
    toast("Invitation revoked.");
    onClose();
  };
  return (
    <Confirm title="Revoke invitation" submit="Revoke invitation" send={send} onClose={onClose}>
      <p>
        The links that were made for <bdi>{of.email}</bdi> stop working.
      </p>
    </Confirm>
  );
}
