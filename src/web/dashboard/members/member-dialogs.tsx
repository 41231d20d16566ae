// Dialogs that change a member's role and remove a member.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { session } from "../api/session.ts";
import { refreshMe } from "../api/sign-in.ts";
import type { Member } from "../api/records.ts";
import { Confirm } from "../forms/confirm.tsx";
import { SelectField, type Option } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { hrefTo } from "../links.ts";
import { Dialog, DoneButton } from "../components/dialog.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Named, shownName } from "../components/text.tsx";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { LeftBehindList, leavesNothing, type LeftBehind } from "./left-behind.tsx";

type Role = Member["role"];

export const ROLES: readonly Option[] = [
  ["member", "Member: can view everything, change nothing"],
  ["admin", "Admin: can change everything except members"],
  ["owner", "Owner: can do everything"],
];

export const roleOf = ({ role = "member" }: Values): Role => (role === "owner" || role === "admin" ? role : "member");

export const memberName = ({ name, email }: Pick<Member, "name" | "email">): string => shownName(name) ?? email;

/** In a sentence: the name, and the address, which no one else can have. */
function Who({ of }: { of: Member }) {
  const name = memberName(of);
  return (
    <>
      <bdi>{name}</bdi>
      {name !== of.email && (
        <>
          {" "}
          (<bdi>{of.email}</bdi>)
        </>
      )}
    </>
  );
}

const isMe = ({ user_id }: Member): boolean => session.value?.user.id === user_id;

type DialogProps = { of: Member; onClose: () => void };

export function ChangeRole({ of, onClose }: DialogProps) {
  const [left, setLeft] = useState<LeftBehind | null>(null);
  const send = async (values: Values): Promise<void> => {
    const params = { userId: of.user_id };
    const changed = await call("PATCH /v1/members/{userId}", { params, body: { role: roleOf(values) } });
    if (isMe(of)) await refreshMe();
    refreshReads("/v1/members");
    toast("Role changed.");
    if (changed.left_behind) setLeft(changed.left_behind);
    else onClose();
  };
  if (left)
    return (
      <Dialog title="Still in use" onClose={onClose}>
        <p>
          <Who of={of} /> is no longer an owner. What they made as one keeps working:
        </p>
        <LeftBehindList left={left} />
        <p>
          Revoke secret keys under <a href={hrefTo("developers")}>Developers</a>, and invitations on this page.
        </p>
        <DoneButton onClick={onClose} />
      </Dialog>
    );
  return (
    <Dialog title="Change role" onClose={onClose}>
      <p class="muted">
        The role of <Who of={of} /> in this workspace. It takes effect immediately.
      </p>
      <Form submit="Change role" send={send} watch={false} onCancel={onClose}>
        <SelectField name="role" label="Role" options={ROLES} value={of.role} />
      </Form>
    </Dialog>
  );
}

const REVOKE: readonly Option[] = [
  ["none", "Keep everything"],
  ["invites", "Revoke the invitations, keep the keys"],
  ["all", "Revoke the keys and the invitations"],
];

const WHAT = ["all", "invites"] as const;

function Consequences({ left }: { left: LeftBehind }) {
  if (leavesNothing(left)) return <p>They made no secret key and sent no invitation that still works.</p>;
  return (
    <>
      <p>These do not end by themselves:</p>
      <LeftBehindList left={left} />
    </>
  );
}

export function RemoveMember({ of, onClose }: DialogProps) {
  const read = useRead("GET /v1/members/{userId}/left_behind", { params: { userId: of.user_id } });
  const { data } = read.state.value;
  const send = async ({ revoke = "none" }: Values): Promise<void> => {
    const query = { revoke: WHAT.find((what) => what === revoke) };
    await call("DELETE /v1/members/{userId}", { params: { userId: of.user_id }, query });
    onClose();
    toast("Member removed.");
    if (isMe(of)) {
      await refreshMe();
      go("#/workspaces");
    } else refreshReads("/v1/");
  };
  return (
    <Confirm
      title={<Named verb="Remove" name={memberName(of)} />}
      submit="Remove member"
      send={send}
      onClose={onClose}
      fields={
        data && !leavesNothing(data) && <SelectField name="revoke" label="What they leave behind" options={REVOKE} />
      }
    >
      <p>
        <Who of={of} /> loses access to this workspace immediately. Their account stays.
      </p>
      <Loaded read={read} rows={2}>
        {(left) => <Consequences left={left} />}
      </Loaded>
    </Confirm>
  );
}
