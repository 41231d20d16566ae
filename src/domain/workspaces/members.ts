// Members of a workspace. All changes take the lock on its audit head: when two owners demote each other at the same
// time, they run one after the other and the second is rejected.
import { fail, failField } from "../../kernel/errors.ts";
import { countOwners, deleteMembership, memberOf, membersOf, setRole } from "../../store/queries/memberships.ts";
import { leaveWorkspace } from "../../store/queries/sessions.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { Role, Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { listOf, type ListQuery } from "../core/list.ts";
import { viewMember, type MemberRow } from "../core/views.ts";
import { requireMayOwn } from "./ownership.ts";
import { endSetupLinks } from "./setup-tokens.ts";
import { leftBehind, leftBehindField, listLeftBehind, revokeInvites, revokeKeys, type Revoke } from "./left-behind.ts";

export const MEMBERS_MAX = 500;

/** A member may leave as many secret keys as the limit allows. */
const REVOCATION_WEIGHT = 100;

/** There are few enough to cut a page from all of them. */
export async function listMembers({ services, actor }: Ctx<Vendor>, { after, limit }: ListQuery) {
  const rows = await membersOf.all(services.store.read, { workspace_id: actor.workspace_id });
  const start = after === undefined ? 0 : rows.findIndex(({ user_id }) => user_id === after) + 1;
  if (after !== undefined && start === 0)
    throw failField("invalid_query", "after", "must be the id of a record in this list");
  return listOf(rows.slice(start), limit ?? rows.length, viewMember);
}

async function liveMember(on: Reader, workspace_id: string, user_id: string): Promise<MemberRow> {
  const row = await memberOf.first(on, { workspace_id, user_id });
  if (!row) throw fail("member_not_found");
  return row;
}

async function requireOtherOwner(tx: Tx, workspace_id: string, leaving: MemberRow): Promise<void> {
  if (leaving.role !== "owner") return;
  if ((await countOwners.count(tx, { workspace_id })) <= 1) throw fail("last_owner");
}

export async function changeRole(ctx: Ctx<Vendor>, user_id: string, role: Role) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { member, changed } = await mutate(ctx, { workspace_id }, async (tx) => {
    const row = await liveMember(tx, workspace_id, user_id);
    if (row.role === role) return unchanged({ member: viewMember(row), changed: false });
    await requireOtherOwner(tx, workspace_id, row);
    const person = { id: user_id, email_verified_at: row.email_verified_at };
    if (role === "owner") {
      await requireMayOwn(services, tx, person, workspace_id, "member_workspaces_reached");
      await endSetupLinks(services, tx);
    }
    const now = services.clock.now();
    await setRole.run(tx, { workspace_id, user_id, role, updated_at: now });
    const payload = { role: { old: row.role, new: role } };
    const left = row.role === "owner" ? leftBehindField(await leftBehind(tx, { workspace_id, user_id, now })) : {};
    return {
      value: { member: { ...viewMember({ ...row, role, updated_at: now }), ...left }, changed: true },
      events: [{ action: "workspace_member.role_changed", target_id: user_id, payload }],
    };
  });
  if (changed && role === "owner") logNewOwner(ctx, workspace_id, user_id);
  return member;
}

/** Logged however a person became an owner; no mail is sent. */
export function logNewOwner({ services, from }: Ctx, workspace_id: string, user_id: string): void {
  services.log.info("owner role granted", { workspace_id, user_id, ...from });
}

/** What would stay if the member were removed. */
export async function showLeftBehind({ services, actor }: Ctx<Vendor>, user_id: string) {
  const { workspace_id } = actor;
  const { read } = services.store;
  await liveMember(read, workspace_id, user_id);
  const left = await listLeftBehind(read, { workspace_id, user_id, now: services.clock.now() });
  return { object: "left_behind" as const, user_id, ...left };
}

/** Takes effect with the next request of the person. `revoke` also ends what they leave behind. */
export async function removeMember(ctx: Ctx<Vendor>, user_id: string, revoke: Revoke) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const weight = revoke === "all" ? REVOCATION_WEIGHT : 1;
  const { value, ended } = await mutate(ctx, { workspace_id, weight }, async (tx) => {
    const row = await liveMember(tx, workspace_id, user_id);
    await requireOtherOwner(tx, workspace_id, row);
    const now = services.clock.now();
    const left = await leftBehind(tx, { workspace_id, user_id, now });
    await deleteMembership.run(tx, { workspace_id, user_id });
    await leaveWorkspace.run(tx, { workspace_id, user_id });
    const invites = revoke === "none" ? [] : await revokeInvites(tx, left.invites, now);
    const keys = revoke === "all" ? left.keys : [];
    // Nothing may follow the end of the acting credential: a person may remove themselves, and a key may be among
    // these.
    const others = await revokeKeys(
      tx,
      keys.filter(({ id }) => id !== actor.id),
      now,
    );
    const own = await revokeKeys(
      tx,
      keys.filter(({ id }) => id === actor.id),
      now,
    );
    const removed: Event = { action: "workspace_member.removed", target_id: user_id, payload: { role: row.role } };
    const value = { object: "workspace_member" as const, user_id, removed: true as const, ...leftBehindField(left) };
    return {
      value: { value, ended: keys.map(({ id }) => id) },
      events: [...invites, ...others, removed, ...own] as [Event, ...Event[]],
    };
  });
  await services.credentialCache.invalidate(ended);
  return value;
}
