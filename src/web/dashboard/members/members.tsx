// The people of the workspace and the invitations into it.
import { useEffect } from "preact/hooks";
import { serverNow } from "../api/clock.ts";
import { useRead } from "../api/query.ts";
import { roleName, session } from "../api/session.ts";
import type { Member } from "../api/records.ts";
import { useCreate, useDialogs } from "../records/use-dialogs.tsx";
import { setParams } from "../links.ts";
import { Badge, type Tone } from "../components/badge.tsx";
import { Button, roleReason } from "../components/button.tsx";
import { Empty } from "../components/empty.tsx";
import { Menu } from "../components/menu.tsx";
import { Page, Panel } from "../components/page.tsx";
import { HALF_MAX, nextCursor, pageCursor, Pager, pageSize } from "../components/pager.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { AddressBelow, UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { InviteMember, RevokeInvite, useMail, type Invite } from "./invite-dialogs.tsx";
import { ChangeRole, memberName, RemoveMember } from "./member-dialogs.tsx";

const DIALOGS = { role: ChangeRole, remove: RemoveMember } as const;

function memberColumns(open: (name: keyof typeof DIALOGS, of: Member) => void): Column<Member>[] {
  const menu = (member: Member) => {
    const disabled = roleReason("owner");
    return [
      [{ label: "Change role", disabled, onSelect: () => open("role", member) }],
      [{ label: "Remove", disabled, danger: true, onSelect: () => open("remove", member) }],
    ];
  };
  return [
    {
      head: "Person",
      names: true,
      cell: (member) => (
        <>
          <UserText>{memberName(member)}</UserText>
          {member.user_id === session.value?.user.id && <span class="muted"> (you)</span>}
          <AddressBelow of={member} />
          {!member.email_verified && <span class="under small">Address not verified</span>}
        </>
      ),
    },
    {
      head: "Role",
      cell: ({ role }) => <Badge tone={role === "owner" ? "accent" : "plain"}>{roleName(role)}</Badge>,
    },
    { head: "Joined", cell: ({ created_at }) => <Time at={created_at} /> },
    {
      head: "Actions",
      actions: true,
      cell: (member) => <Menu label={`Actions for ${memberName(member)}`} groups={menu(member)} />,
    },
  ];
}

function inviteState({ accepted_at, revoked_at, expires_at }: Invite): [name: string, tone: Tone] {
  if (accepted_at !== null) return ["Accepted", "good"];
  if (revoked_at !== null) return ["Revoked", "plain"];
  return Date.parse(expires_at) <= serverNow() ? ["Expired", "plain"] : ["Pending", "warn"];
}

function inviteColumns(revoke: (invite: Invite) => void): Column<Invite>[] {
  return [
    { head: "Email", names: true, cell: ({ email }) => <UserText>{email}</UserText> },
    { head: "Role", cell: ({ role }) => roleName(role) },
    {
      head: "State",
      cell: (invite) => {
        const [name, tone] = inviteState(invite);
        return <Badge tone={tone}>{name}</Badge>;
      },
    },
    { head: "Sent", room: 560, cell: ({ created_at }) => <Time at={created_at} /> },
    {
      head: "Expires",
      cell: (invite) => inviteState(invite)[0] === "Pending" && <Time at={invite.expires_at} />,
    },
    {
      head: "Actions",
      actions: true,
      cell: (invite) =>
        inviteState(invite)[0] === "Pending" && (
          <Button needs="owner" label={`Revoke the invitation for ${invite.email}`} onClick={() => revoke(invite)}>
            Revoke
          </Button>
        ),
    },
  ];
}

/** Accepted ones are members by now, so they are folded away. */
function InviteTables({ invites, columns }: { invites: readonly Invite[]; columns: Column<Invite>[] }) {
  const { accepted = [], others = [] } = Object.groupBy(invites, ({ accepted_at }) =>
    accepted_at === null ? "others" : "accepted",
  );
  return (
    <>
      {others.length === 0 && <p class="muted">No open invitations.</p>}
      {others.length > 0 && <Table caption="Invitations" columns={columns} rows={others} rowKey={({ id }) => id} />}
      {accepted.length > 0 && (
        <details class="more">
          <summary>Accepted ({accepted.length})</summary>
          <Table caption="Accepted invitations" columns={columns} rows={accepted} rowKey={({ id }) => id} />
        </details>
      )}
    </>
  );
}

function Invitations({ onInvite }: { onInvite: () => void }) {
  const { open, dialog } = useDialogs({ revoke: RevokeInvite });
  const after = pageCursor();
  const read = useRead("GET /v1/invites", { query: { after, limit: pageSize(HALF_MAX) } });
  return (
    <Panel title="Invitations">
      <Loaded read={read} rows={3}>
        {(list) =>
          list.data.length === 0 ? (
            <Empty
              icon="members"
              title="No invitations"
              action={
                <Button needs="owner" onClick={onInvite}>
                  Invite a colleague
                </Button>
              }
              command="keyrack invite create --email ada@example.com --role admin"
            >
              Invite a colleague to work on this workspace together.
            </Empty>
          ) : (
            <>
              <InviteTables invites={list.data} columns={inviteColumns((invite) => open("revoke", invite))} />
              {(list.has_more || after !== undefined) && (
                <Pager next={nextCursor(list)} shown={list.data.length} what="invitation" max={HALF_MAX} />
              )}
            </>
          )
        }
      </Loaded>
      {dialog}
    </Panel>
  );
}

/** Beside the cursor of the invitations. */
const CURSOR = "members_after";

function MemberList() {
  const { open, dialog } = useDialogs(DIALOGS);
  const after = pageCursor(CURSOR);
  const read = useRead("GET /v1/members", { query: { after, limit: pageSize(HALF_MAX) } });
  // The person who ends the page before may have been removed since.
  const isGone = read.state.value.problem?.details.some(({ path }) => path === "after") ?? false;
  useEffect(() => {
    if (isGone) setParams({ [CURSOR]: null }, { replace: true });
  }, [isGone]);
  return (
    <Panel title="Members">
      <Loaded read={read} rows={3}>
        {({ data, has_more }) => (
          <>
            <Table caption="Members" columns={memberColumns(open)} rows={data} rowKey={({ user_id }) => user_id} />
            <Pager
              name={CURSOR}
              next={has_more ? (data.at(-1)?.user_id ?? null) : null}
              shown={data.length}
              what="member"
              max={HALF_MAX}
            />
          </>
        )}
      </Loaded>
      {dialog}
    </Panel>
  );
}

export function Members() {
  const mail = useMail();
  const { button, dialog, open } = useCreate("Invite", InviteMember, "owner");
  return (
    <Page title="Members" lead="The people who run this workspace." actions={button}>
      {mail !== "smtp" && (
        <p class="note">
          This server does not deliver mail{mail === "file" ? ": it writes messages to files" : ""}. Pass invite links
          on yourself.
        </p>
      )}
      <MemberList />
      <Invitations onInvite={open} />
      {dialog}
    </Page>
  );
}
