// Invitations: who may accept, with which token, and only once.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  auditRows,
  deploymentActions,
  freshEmail,
  lastMail,
  receivedMail,
  memberOf,
  person,
  team,
  type Person,
  type Team,
} from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, testInstance, type Reply } from "../../../harness/instances/test-instance.ts";
import { ROUNDS } from "../../../harness/rounds.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const ACCEPT = "POST /v1/auth/invites/accept";

for (const backend of runBackends) {
  describe(`invitations on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let t: Team;
    beforeAll(async () => {
      t = await team(instance);
    });
    const invite = (email: string, role = "member", by = t.owner.session): Promise<Reply> =>
      instance.call(by, "POST /v1/invites", { email, role });
    const actions = async (since: number): Promise<string[]> =>
      (await auditRows(instance, t.id)).slice(since).map(({ action }) => action);
    const length = async (): Promise<number> => (await auditRows(instance, t.id)).length;

    it("returns one token once and mails another", async () => {
      const email = freshEmail("guest");
      const since = await length();
      const reply = await invite(email, "admin");
      expect(reply.status).toBe(201);
      const { token, ...rest } = reply.body;
      expect(rest).toEqual({
        object: "workspace_invite",
        id: expect.any(String),
        email,
        role: "admin",
        invited_by: t.owner.id,
        created_at: expect.any(String),
        expires_at: new Date(Date.parse(rest.created_at) + 7 * DAY_MS).toISOString(),
        accepted_at: null,
        revoked_at: null,
        token_shown_once: true,
      });
      expect(token).toMatch(new RegExp(`^${t.id}\\.[A-Za-z0-9_-]{32}[0-9a-f]{8}$`));
      const mail = await lastMail(instance, email);
      expect(mail.link).toBe(`${instance.url}/#/invite?token=${mail.token}`);
      expect(mail.token).not.toBe(token);
      expect(mail.subject).toBe("You have been invited to a Keyrack workspace");
      expect(mail.text).toContain(`Sent by Keyrack at ${new URL(instance.app.services.publicUrl).host}`);
      expect(mail.text).toMatch(/join a workspace as admin\.\r?\n\r?\nWorkspace: Team\r?\n/);
      const rows = (await auditRows(instance, t.id)).slice(since);
      expect(rows).toMatchObject([
        { action: "workspace_invite.created", target_id: rest.id, payload: { email, role: "admin" } },
      ]);
      const { body: list } = await instance.call(t.owner.session, "GET /v1/invites");
      expect(list.data[0].id).toBe(rest.id);
      expect(JSON.stringify(list)).not.toContain("token");
    });

    it("accepts invitations made by a secret key, which name the person of that key", async () => {
      const reply = await invite(freshEmail(), "member", t.key);
      expect(reply.body.invited_by).toBe(t.owner.id);
    });

    it("allows one pending invitation per address, and none for a member", async () => {
      const email = freshEmail();
      const first = await invite(email);
      expectRefusal(await invite(email.toUpperCase()), 409, "conflict");
      await instance.call(t.owner.session, `POST /v1/invites/${first.body.id}/revoke`, {});
      expect((await invite(email)).status).toBe(201);
      const member = await memberOf(instance, t, "member");
      expectRefusal(await invite(member.email), 409, "conflict");
    });

    for (const [why, body, path] of [
      ["an unknown role", { email: "a@example.com", role: "superuser" }, "role"],
      ["no role", { email: "a@example.com" }, "role"],
      ["a broken address", { email: "a b@example.com", role: "member" }, "email"],
    ] as const) {
      it(`refuses ${why}`, async () => {
        expectRefusal(await instance.call(t.owner.session, "POST /v1/invites", body), 400, "invalid_request", path);
      });
    }

    it("makes a member on acceptance, moves a session without a workspace, and records the invited address", async () => {
      const guest = await person(instance);
      const invitedTo = freshEmail("another-address");
      const { body } = await invite(invitedTo, "admin");
      const since = await length();
      const reply = await instance.call(guest.session, ACCEPT, { token: body.token });
      expect(reply.status).toBe(200);
      expect(reply.body).toEqual({
        object: "workspace_member",
        workspace_id: t.id,
        user_id: guest.id,
        role: "admin",
        active: true,
      });
      expect((await instance.call(guest.session, "GET /v1/workspace")).body.id).toBe(t.id);
      const rows = (await auditRows(instance, t.id)).slice(since);
      expect(rows).toMatchObject([
        {
          action: "workspace_member.joined",
          target_id: guest.id,
          payload: { role: "admin", email: guest.email, invited_to: invitedTo },
        },
        { action: "workspace_invite.accepted", target_id: body.id, payload: { email: invitedTo, role: "admin" } },
      ]);
      const log = await instance.call(guest.session, "GET /v1/audit_logs?limit=200");
      expect(log.body.data.at(-1).actor).toEqual({
        id: guest.id,
        email: guest.email,
        email_verified: true,
        name: null,
      });
    });

    it("are at most 500 pending ones in a workspace, and a refusal is counted for it", async () => {
      const full = await team(instance);
      const call = () => instance.call(full.owner.session, "POST /v1/invites", { email: freshEmail(), role: "member" });
      const { id } = (await call()).body;
      const numbers = Array.from({ length: 499 }, (_, i) => `select '${100 + i}' n`).join(" union all ");
      await instance.sql(`insert into workspace_invites
          (id, workspace_id, email, email_key, role, token_hash, mailed_token_hash, created_at, expires_at)
        select '${id.slice(0, -3)}' || n, workspace_id, email, n, role, '${id}' || n, n || '${id}', created_at, expires_at
        from workspace_invites, (${numbers}) numbers where id = '${id}'`);
      expectRefusal(await call(), 409, "conflict");
      const refusals = instance.app.services.shares.of("quotas").owners();
      expect(refusals.find(({ owner }) => owner.id === `${full.id}/live`)?.refused).toBe(1);
    });

    // Who may accept with which token.
    for (const [why, verified, mailed, same, status] of [
      ["a verified person with the API's token", true, false, false, 200],
      ["a verified person with the mailed token", true, true, false, 200],
      ["an unverified person with the mailed token to their own address", false, true, true, 200],
      ["an unverified person with the mailed token to another address", false, true, false, 403],
      ["an unverified person with the API's token to their own address", false, false, true, 403],
      ["an unverified person with the API's token to another address", false, false, false, 403],
    ] as const) {
      it(`responds ${status} to ${why}`, async () => {
        const guest = await person(instance, { verified });
        const email = same ? guest.email : freshEmail();
        const { body } = await invite(email);
        const token = mailed ? (await lastMail(instance, email)).token : body.token;
        const [since, people] = [await length(), (await auditRows(instance)).length];
        const reply = await instance.call(guest.session, ACCEPT, { token });
        const nowVerified = (await instance.call(guest.session, "GET /v1/auth/me")).body.user.email_verified;
        if (status === 403) {
          expectRefusal(reply, 403, "email_unverified");
          expect(nowVerified).toBe(false);
          expect(await actions(since)).toEqual([]);
          expect(await deploymentActions(instance, people)).toEqual([]);
        } else {
          expect(reply.status).toBe(200);
          expect(nowVerified).toBe(true);
          expect(await deploymentActions(instance, people)).toEqual(verified ? [] : ["user.email_verified"]);
        }
      });
    }

    it("responds 409 to a member who accepts again and keeps the role", async () => {
      const admin = await memberOf(instance, t, "admin");
      const { body } = await invite(freshEmail(), "owner");
      const since = await length();
      expectRefusal(await instance.call(admin.session, ACCEPT, { token: body.token }), 409, "conflict");
      const { body: members } = await instance.call(t.owner.session, "GET /v1/members");
      const me = members.data.find(({ user_id }: { user_id: string }) => user_id === admin.id);
      expect(me.role).toBe("admin");
      expect(await actions(since)).toEqual([]);
    });

    // [state, status of revoke, rows it writes, status of accept]
    for (const [state, revoke, rows, accept] of [
      ["pending", 200, ["workspace_invite.revoked"], 200],
      ["accepted", 409, [], 400],
      ["revoked", 200, [], 400],
      ["expired", 200, ["workspace_invite.revoked"], 400],
    ] as const) {
      const make = async (): Promise<{ id: string; token: string }> => {
        const { body } = await invite(freshEmail());
        if (state === "accepted") await instance.call((await person(instance)).session, ACCEPT, { token: body.token });
        if (state === "revoked") await instance.call(t.owner.session, `POST /v1/invites/${body.id}/revoke`, {});
        if (state === "expired")
          await instance.sql("update workspace_invites set expires_at = 1 where id = $1", [body.id]);
        return body;
      };
      it(`responds ${revoke} to revoking an invitation that is ${state}`, async () => {
        const { id } = await make();
        const since = await length();
        const reply = await instance.call(t.owner.session, `POST /v1/invites/${id}/revoke`, {});
        if (revoke === 200) expect(reply.body).toMatchObject({ id, revoked_at: expect.any(String) });
        else expectRefusal(reply, revoke, "conflict");
        expect(await actions(since)).toEqual(rows);
      });
      it(`responds ${accept} to accepting an invitation that is ${state}`, async () => {
        const { token } = await make();
        const since = await length();
        const reply = await instance.call((await person(instance)).session, ACCEPT, { token });
        if (accept === 200) return expect(reply.status).toBe(200);
        expectRefusal(reply, 400, "invalid_token");
        expect(reply.body.error.message).toBe("The token is invalid or has expired.");
        expect(await actions(since)).toEqual([]);
      });
    }

    it("reads and writes nothing for made-up tokens and tokens that name another workspace", async () => {
      const guest = await person(instance);
      const other = await team(instance);
      const { body } = await invite(freshEmail());
      const secret = body.token.split(".")[1];
      for (const token of ["x", `${t.id}.`, `${other.id}.${secret}`, `${body.token}0`, secret]) {
        expectRefusal(await instance.call(guest.session, ACCEPT, { token }), 400, "invalid_token");
      }
      expect((await instance.call(guest.session, "GET /v1/auth/me")).body.memberships).toEqual([]);
    });

    it("hides another workspace's invitation", async () => {
      const other = await team(instance);
      const { body } = await invite(freshEmail());
      expectRefusal(
        await instance.call(other.owner.session, `POST /v1/invites/${body.id}/revoke`, {}),
        404,
        "not_found",
      );
      const { body: list } = await instance.call(other.owner.session, "GET /v1/invites");
      expect(list.data).toEqual([]);
      expectRefusal(
        await instance.call(other.owner.session, `GET /v1/invites?after=${body.id}`),
        400,
        "invalid_request",
        "after",
      );
    });

    it("returns the same invitation to a retry with an Idempotency-Key, mailed once", async () => {
      const email = freshEmail();
      const options = { headers: { "idempotency-key": `invite-${email}` } };
      const first = await instance.call(t.owner.session, "POST /v1/invites", { email, role: "member" }, options);
      const again = await instance.call(t.owner.session, "POST /v1/invites", { email, role: "member" }, options);
      expect(again.body).toEqual(first.body);
      expect(await receivedMail(instance, email)).toHaveLength(1);
    });

    it("returns the first response to a retried revocation with an Idempotency-Key", async () => {
      const { body } = await instance.call(t.owner.session, "POST /v1/invites", {
        email: freshEmail(),
        role: "member",
      });
      const options = { headers: { "idempotency-key": `revoke-${body.id}` } };
      const revoke = () => instance.call(t.owner.session, `POST /v1/invites/${body.id}/revoke`, {}, options);
      const [first, again] = [await revoke(), await revoke()];
      expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([200, null]);
      expect([again.status, again.headers.get("idempotent-replayed"), again.text]).toEqual([200, "true", first.text]);
    });

    it(`admits one of two people who accept one invitation concurrently, ${ROUNDS} times over`, async () => {
      // On PostgreSQL the second person uses another process.
      await using beside = backend === "postgres" ? await testInstance(backend, { beside: instance }) : null;
      const home = await team(instance);
      const people: Person[] = [await person(instance), await person(instance)];
      for (let round = 0; round < ROUNDS; round++) {
        const { body } = await instance.call(home.owner.session, "POST /v1/invites", {
          email: freshEmail(),
          role: "member",
        });
        const [a, b] = people.map(({ session }) => session) as [string, string];
        const token = { token: body.token };
        const replies = await Promise.all([
          instance.call(a, ACCEPT, token),
          (beside ?? instance).call(b, ACCEPT, token),
          instance.call(a, ACCEPT, token),
        ]);
        expect(replies.map(({ status }) => String(status)).toSorted()).toEqual(["200", "400", "400"]);
        const { body: members } = await instance.call(home.owner.session, "GET /v1/members");
        expect(members.data).toHaveLength(2);
        await instance.call(home.owner.session, `DELETE /v1/members/${members.data[1].user_id}`);
      }
    });
  });
}
