// Members: roles, the last owner, removal that takes effect at once; and workspaces made by people.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { auditRows, memberOf, person, team, type Team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, testInstance } from "../../../harness/instances/test-instance.ts";
import { ROUNDS } from "../../../harness/rounds.ts";

const NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057";

for (const backend of runBackends) {
  describe(`members on ${backend}`, () => {
    const instance = sharedInstance(backend);
    const since = async (t: Team): Promise<number> => (await auditRows(instance, t.id)).length;
    const rows = async (t: Team, from: number) => (await auditRows(instance, t.id)).slice(from);

    it("makes the creator the owner, recorded in the audit chain", async () => {
      const t = await team(instance);
      expect((await rows(t, 0)).map(({ action, payload }) => [action, payload])).toEqual([
        ["workspace.created", { slug: t.slug }],
        ["workspace_member.joined", { role: "owner", email: t.owner.email }],
        ["secret_key.created", { env: "live", display_prefix: t.key.slice(0, 16), name: null }],
      ]);
      const { body } = await instance.call(t.owner.session, "GET /v1/audit_logs");
      expect(body.data[0].actor).toMatchObject({ id: t.owner.id, email: t.owner.email });
      const chain = await instance.call(t.owner.session, "GET /v1/audit_logs/chain");
      expect(chain.body.verified).toBe(true);
    });

    it("leaves the active workspace alone when a person creates a second one", async () => {
      const t = await team(instance);
      const made = await instance.call(t.owner.session, "POST /v1/workspaces", {
        name: "Second",
        slug: `${t.slug}-2`,
        env: "test",
      });
      expect(made.body.secret_key.key).toMatch(/^krsk_test_/);
      expect((await instance.call(t.owner.session, "GET /v1/workspace")).body.id).toBe(t.id);
    });

    it("responds 409 to a taken slug and creates no membership", async () => {
      const [t, p] = [await team(instance), await person(instance)];
      const reply = await instance.call(p.session, "POST /v1/workspaces", { name: "Mine", slug: t.slug });
      expectRefusal(reply, 409, "conflict", "slug");
      expect((await instance.call(p.session, "GET /v1/auth/me")).body.memberships).toEqual([]);
    });

    it("lists members oldest first with exactly the contract's fields", async () => {
      const t = await team(instance);
      instance.clock.advance(1);
      const admin = await memberOf(instance, t, "admin");
      const { body } = await instance.call(t.owner.session, "GET /v1/members");
      expect(body.data.map(({ user_id }: { user_id: string }) => user_id)).toEqual([t.owner.id, admin.id]);
      const first = await instance.call(t.owner.session, "GET /v1/members?limit=1");
      expect(first.body).toEqual({ object: "list", data: [body.data[0]], has_more: true });
      const rest = await instance.call(t.owner.session, `GET /v1/members?limit=1&after=${t.owner.id}`);
      expect(rest.body).toEqual({ object: "list", data: [body.data[1]] });
      const stranger = await instance.call(t.owner.session, `GET /v1/members?after=${(await team(instance)).owner.id}`);
      expectRefusal(stranger, 400, "invalid_request", "after");
      expect(body.data[1]).toEqual({
        object: "workspace_member",
        user_id: admin.id,
        email: admin.email,
        email_verified: true,
        name: null,
        role: "admin",
        created_at: expect.any(String),
        updated_at: expect.any(String),
      });
    });

    it("applies a changed role from the next request", async () => {
      const t = await team(instance);
      const p = await memberOf(instance, t, "member");
      const project = { name: "P", slug: "project" };
      expectRefusal(await instance.call(p.session, "POST /v1/projects", project), 403, "forbidden");
      const from = await since(t);
      const reply = await instance.call(t.owner.session, `PATCH /v1/members/${p.id}`, { role: "admin" });
      expect(reply.body).toMatchObject({ object: "workspace_member", user_id: p.id, role: "admin" });
      expect((await instance.call(p.session, "POST /v1/projects", project)).status).toBe(201);
      const again = await instance.call(t.owner.session, `PATCH /v1/members/${p.id}`, { role: "admin" });
      expect(again.status).toBe(200);
      const changed = (await rows(t, from)).filter(({ action }) => action.startsWith("workspace_member"));
      expect(changed).toMatchObject([
        {
          action: "workspace_member.role_changed",
          target_id: p.id,
          payload: { role: { old: "member", new: "admin" } },
        },
      ]);
    });

    it("lets only owners and owner-scope keys change members", async () => {
      const t = await team(instance);
      const [admin, member] = [await memberOf(instance, t, "admin"), await memberOf(instance, t, "member")];
      const { body: minted } = await instance.call(admin.session, "POST /v1/secret_keys", { env: "live" });
      const { body: test } = await instance.call(t.key, "POST /v1/secret_keys", { env: "test" });
      for (const bearer of [admin.session, member.session, minted.key, test.key]) {
        for (const route of [`PATCH /v1/members/${member.id}`, "POST /v1/invites"]) {
          expectRefusal(await instance.call(bearer, route, { role: "owner" }), 403, "forbidden");
        }
        expectRefusal(await instance.call(bearer, `DELETE /v1/members/${member.id}`), 403, "forbidden");
      }
      for (const route of ["GET /v1/members", "GET /v1/invites"]) {
        for (const bearer of [admin.session, member.session, minted.key, t.key])
          expect((await instance.call(bearer, route)).status).toBe(200);
        expectRefusal(await instance.call(test.key, route), 403, "forbidden");
      }
      expect((await instance.call(t.key, `PATCH /v1/members/${member.id}`, { role: "owner" })).status).toBe(200);
    });

    it("neither demotes nor removes the last owner", async () => {
      const t = await team(instance);
      await memberOf(instance, t, "admin");
      const from = await since(t);
      const demoted = await instance.call(t.owner.session, `PATCH /v1/members/${t.owner.id}`, { role: "admin" });
      expectRefusal(demoted, 409, "conflict");
      expect(demoted.body.error.message).toBe("A workspace must keep at least one owner.");
      expectRefusal(await instance.call(t.owner.session, `DELETE /v1/members/${t.owner.id}`), 409, "conflict");
      expect(await rows(t, from)).toEqual([]);
    });

    it("refuses a removed member's next request; their session continues without a workspace", async () => {
      const t = await team(instance);
      const p = await memberOf(instance, t, "admin");
      const from = await since(t);
      const reply = await instance.call(t.owner.session, `DELETE /v1/members/${p.id}`);
      expect(reply.body).toEqual({ object: "workspace_member", user_id: p.id, removed: true });
      const refused = await instance.call(p.session, "GET /v1/workspace");
      expectRefusal(refused, 403, "forbidden");
      expect(refused.body.error.message).toBe("No active workspace.");
      const me = await instance.call(p.session, "GET /v1/auth/me");
      expect(me.body).toMatchObject({ active_workspace_id: null, memberships: [] });
      expect(await instance.sql("select active_workspace_id from sessions where id = $1", [p.session_id])).toEqual([
        { active_workspace_id: null },
      ]);
      expectRefusal(await instance.call(t.owner.session, `DELETE /v1/members/${p.id}`), 404, "not_found");
      expect(await rows(t, from)).toMatchObject([
        { action: "workspace_member.removed", target_id: p.id, payload: { role: "admin" } },
      ]);
    });

    it("hides another workspace's members", async () => {
      const [t, other] = [await team(instance), await team(instance)];
      const p = await memberOf(instance, other, "member");
      for (const id of [p.id, NOBODY]) {
        expectRefusal(
          await instance.call(t.owner.session, `PATCH /v1/members/${id}`, { role: "admin" }),
          404,
          "not_found",
        );
        expectRefusal(await instance.call(t.owner.session, `DELETE /v1/members/${id}`), 404, "not_found");
      }
      expectRefusal(await instance.call(t.owner.session, "DELETE /v1/members/me"), 400, "invalid_request", "userId");
    });

    it("lists no members of a workspace without members, and changes none", async () => {
      const workspace = await instance.workspace();
      expect((await workspace.call("sk_owner", "GET /v1/members")).body).toEqual({ object: "list", data: [] });
      expectRefusal(await workspace.call("sk_owner", `DELETE /v1/members/${NOBODY}`), 404, "not_found");
    });

    it(`keeps one owner when two demote each other concurrently, ${ROUNDS} times over`, async () => {
      const t = await team(instance);
      const other = await memberOf(instance, t, "owner");
      // On PostgreSQL the second owner uses another process.
      await using beside = backend === "postgres" ? await testInstance(backend, { beside: instance }) : null;
      for (let round = 0; round < ROUNDS; round++) {
        const replies = await Promise.all([
          instance.call(t.owner.session, `PATCH /v1/members/${other.id}`, { role: "member" }),
          (beside ?? instance).call(other.session, `PATCH /v1/members/${t.owner.id}`, { role: "member" }),
        ]);
        // The second request comes from a former owner or would demote the last one.
        expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
        const { body } = await instance.call(t.key, "GET /v1/members");
        const owners = body.data.filter(({ role }: { role: string }) => role === "owner");
        expect(owners).toHaveLength(1);
        for (const { user_id } of body.data)
          await instance.call(t.key, `PATCH /v1/members/${user_id}`, { role: "owner" });
      }
    });
  });
}
