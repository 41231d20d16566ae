// What a removed or demoted owner leaves behind: listed, and ended on demand in the same transaction.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  auditRows,
  freshEmail,
  memberOf,
  person,
  team,
  type Person,
  type Team,
} from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";
import { actsAfterEnd } from "../../../harness/models/ended-credentials.ts";
import { fillKeyCreators } from "../../../src/domain/keys/creators.ts";
import { JobTransaction } from "../../../src/store/engine/transaction.ts";

for (const backend of runBackends) {
  describe(`left behind on ${backend}`, () => {
    const instance = sharedInstance(backend);

    /** A second owner who has minted two keys, one of them for tests, and sent an invitation. */
    async function leaver(t: Team): Promise<Person & { keys: { id: string; key: string }[]; invite: string }> {
      const p = await memberOf(instance, t, "owner");
      const keys: { id: string; key: string }[] = [];
      for (const env of ["live", "test"]) {
        keys.push((await instance.call(p.session, "POST /v1/secret_keys", { env })).body);
        instance.clock.advance(1);
      }
      const invite = await instance.call(p.session, "POST /v1/invites", { email: freshEmail(), role: "owner" });
      return { ...p, keys, invite: invite.body.id };
    }
    const works = async (key: string): Promise<boolean> =>
      (await instance.call(key, "GET /v1/workspace")).status === 200;

    it("lists keys and invitations of a removed owner, and leaves them working by default", async () => {
      const t = await team(instance);
      const p = await leaver(t);
      const [live, test] = p.keys;
      const expected = {
        secret_keys: [
          { id: test?.id, env: "test", display_prefix: test?.key.slice(0, 16), owner_scope: true, last_used_at: null },
          { id: live?.id, env: "live", display_prefix: live?.key.slice(0, 16), owner_scope: true, last_used_at: null },
        ],
        invites: [{ id: p.invite, email: expect.any(String), role: "owner", expires_at: expect.any(String) }],
        more: false,
      };
      const before = await instance.call(t.owner.session, `GET /v1/members/${p.id}/left_behind`);
      expect(before.body).toEqual({ object: "left_behind", user_id: p.id, ...expected });
      const demoted = await instance.call(t.owner.session, `PATCH /v1/members/${p.id}`, { role: "admin" });
      expect(demoted.body.left_behind).toEqual(expected);
      const removed = await instance.call(t.owner.session, `DELETE /v1/members/${p.id}`);
      expect(removed.body).toEqual({
        object: "workspace_member",
        user_id: p.id,
        removed: true,
        left_behind: expected,
      });
      expect(await works(live?.key ?? "")).toBe(true);
      expectRefusal(await instance.call(t.owner.session, `GET /v1/members/${p.id}/left_behind`), 404, "not_found");
    });

    it("ends invitations or everything on demand, one audit row each", async () => {
      const t = await team(instance);
      for (const revoke of ["invites", "all"]) {
        const p = await leaver(t);
        const from = (await auditRows(instance, t.id)).length;
        const reply = await instance.call(t.owner.session, `DELETE /v1/members/${p.id}?revoke=${revoke}`);
        expect(reply.status, reply.text).toBe(200);
        const rows = (await auditRows(instance, t.id)).slice(from).map(({ action, target_id }) => [action, target_id]);
        const invite = ["workspace_invite.revoked", p.invite];
        const keys = p.keys.map(({ id }) => ["secret_key.revoked", id]).toReversed();
        const removed = ["workspace_member.removed", p.id];
        expect(rows).toEqual(revoke === "all" ? [invite, ...keys, removed] : [invite, removed]);
        expect(await works(p.keys[0]?.key ?? "")).toBe(revoke !== "all");
      }
      const bad = await instance.call(t.owner.session, `DELETE /v1/members/${t.owner.id}?revoke=some`);
      expectRefusal(bad, 400, "invalid_request", "revoke");
    });

    it("ends many keys with few statements and one eviction", async () => {
      const t = await team(instance);
      const p = await leaver(t);
      for (let i = 0; i < 120; i++) await instance.call(p.session, "POST /v1/secret_keys", { env: "live" });
      const from = (await auditRows(instance, t.id)).length;
      const running = vi.spyOn(JobTransaction.prototype, "run");
      const evicting = vi.spyOn(instance.app.services.credentialCache, "invalidate");
      const reply = await instance.call(t.owner.session, `DELETE /v1/members/${p.id}?revoke=all`);
      const updates = running.mock.calls.filter(([{ sql }]) => sql.startsWith('update "secret_keys"')).length;
      const evictions = evicting.mock.calls.length;
      running.mockRestore();
      evicting.mockRestore();
      expect([reply.status, updates, evictions]).toEqual([200, 2, 1]);
      const left = await instance.sql("select id from secret_keys where created_by = $1 and revoked_at is null", [
        p.id,
      ]);
      const rows = (await auditRows(instance, t.id)).slice(from);
      expect([left.length, rows.filter(({ action }) => action === "secret_key.revoked").length]).toEqual([0, 122]);
    });

    it("writes nothing after the end of the acting credential", async () => {
      const t = await team(instance);
      const [p, q] = [await leaver(t), await leaver(t)];
      const own = p.keys[0]?.key ?? "";
      expect((await instance.call(own, `DELETE /v1/members/${p.id}?revoke=all`)).status).toBe(200);
      expect(await works(own)).toBe(false);
      expect((await instance.call(q.session, `DELETE /v1/members/${q.id}?revoke=all`)).status).toBe(200);
      expect(actsAfterEnd(await auditRows(instance, t.id))).toEqual([]);
    });

    it("shows it to owners only, and nothing of another workspace", async () => {
      const [t, other] = [await team(instance), await team(instance)];
      const admin = await memberOf(instance, t, "admin");
      const route = `GET /v1/members/${t.owner.id}/left_behind`;
      expectRefusal(await instance.call(admin.session, route), 403, "forbidden");
      expectRefusal(await instance.call(other.owner.session, route), 404, "not_found");
    });

    it("follows rotation, and learns from the audit log who minted older keys", async () => {
      const t = await team(instance);
      const p = await leaver(t);
      const { id = "", key = "" } = p.keys[0] ?? {};
      const rotated = await instance.call(key, `POST /v1/secret_keys/${id}/rotate`, {});
      const mine = async () =>
        (await instance.sql("select id from secret_keys where created_by = $1 order by id", [p.id])).map(
          (row) => row.id,
        );
      const expected = [...p.keys.map((each) => each.id), rotated.body.id as string].toSorted();
      expect(await mine()).toEqual(expected);
      await instance.sql("update secret_keys set created_by = null");
      await instance.sql("delete from deployment where name = 'secret_key_makers'");
      await fillKeyCreators(instance.app.services);
      expect(await mine()).toEqual(expected);
      const [first] = await instance.sql(
        "select created_by from secret_keys where workspace_id = $1 order by created_at, id",
        [t.id],
      );
      expect(first?.created_by).toBe(t.owner.id);
    });

    it("includes what was made through a chain of keys, rotations included", async () => {
      const t = await team(instance);
      const p = await leaver(t);
      const minted = await instance.call(p.keys[0]?.key ?? "", "POST /v1/secret_keys", { env: "live" });
      const last = await instance.call(minted.body.key, "POST /v1/secret_keys", { env: "live" });
      const { body: other } = await instance.call(t.key, "POST /v1/secret_keys", { env: "live" });
      const rotated = await instance.call(last.body.key, `POST /v1/secret_keys/${other.id}/rotate`, {});
      const invite = await instance.call(last.body.key, "POST /v1/invites", { email: freshEmail(), role: "owner" });
      expect(invite.body.invited_by).toBe(p.id);
      const made: string[] = [minted, last, rotated].map(({ body }) => body.id);
      const creators = async () => {
        const rows = await instance.sql("select id, created_by from secret_keys where workspace_id = $1", [t.id]);
        return new Map(rows.map(({ id, created_by }) => [id, created_by]));
      };
      const before = await creators();
      expect([...made, other.id].map((id) => before.get(id))).toEqual([p.id, p.id, p.id, t.owner.id]);
      await instance.sql("update secret_keys set created_by = null where workspace_id = $1", [t.id]);
      await instance.sql("delete from deployment where name = 'secret_key_makers'");
      await fillKeyCreators(instance.app.services);
      expect(await creators()).toEqual(before);

      const from = (await auditRows(instance, t.id)).length;
      const removed = await instance.call(t.owner.session, `DELETE /v1/members/${p.id}?revoke=all`);
      expect(removed.body.left_behind.secret_keys).toHaveLength(5);
      const ended = (await auditRows(instance, t.id)).slice(from).map(({ target_id }) => target_id);
      expect(ended).toEqual(expect.arrayContaining([...made, invite.body.id, p.id]));
      for (const { body } of [minted, last, rotated]) expect(await works(body.key)).toBe(false);
      expect(await works(t.key)).toBe(true);
      expect(await works(other.key)).toBe(true);
      const { session } = await person(instance);
      const accepted = await instance.call(session, "POST /v1/auth/invites/accept", { token: invite.body.token });
      expectRefusal(accepted, 400, "invalid_token");
    });

    /** By default adds 1,097 keys to the three that there are. */
    const addKeys = (t: { id: string; slug: string }, expires_at: number | null, count = 1097) =>
      instance.sql(
        `insert into secret_keys (id, workspace_id, env, lookup_hash, display_prefix, owner_scope, created_at, expires_at)
          with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
          select '${t.slug}-' || i, $1, 'live', '${t.slug}-' || i, 'krsk_live_', 0, 1, ${expires_at} from n`,
        [t.id],
      );

    it("refuses a rotation a hundred keys above the quota", async () => {
      const t = await team(instance);
      const { body } = await instance.call(t.key, "POST /v1/secret_keys", { env: "live" });
      await addKeys(t, null);
      const rotate = () => instance.call(t.key, `POST /v1/secret_keys/${body.id}/rotate`, {});
      expect((await rotate()).status).toBe(200);
      expectRefusal(await rotate(), 409, "conflict");
    });

    it("creates and rotates beside expired keys", async () => {
      const t = await team(instance);
      const soon = instance.clock.now() + 1_000;
      await addKeys(t, soon);
      expectRefusal(await instance.call(t.key, "POST /v1/secret_keys", { env: "live" }), 409, "conflict");
      instance.clock.advance(1_000);
      const { status, body } = await instance.call(t.key, "POST /v1/secret_keys", { env: "live" });
      expect(status).toBe(201);
      expect((await instance.call(t.key, `POST /v1/secret_keys/${body.id}/rotate`, {})).status).toBe(200);
    });

    it("refuses more unrevoked keys than ten times the quota, expired ones included", async () => {
      const t = await team(instance);
      const { body } = await instance.call(t.key, "POST /v1/secret_keys", { env: "live" });
      const before = await instance.sql("select id from secret_keys where workspace_id = $1 and env = 'live'", [t.id]);
      await addKeys(t, 1_000, 10_999 - before.length);
      const create = () => instance.call(t.key, "POST /v1/secret_keys", { env: "live" });
      const rotate = () => instance.call(t.key, `POST /v1/secret_keys/${body.id}/rotate`, { overlap_hours: 0 });
      expectRefusal(await create(), 409, "conflict");
      expect((await rotate()).status).toBe(200);
      expectRefusal(await rotate(), 409, "conflict");
      await instance.sql("update secret_keys set revoked_at = 1 where id = $1", [`${t.slug}-1`]);
      expect((await rotate()).status).toBe(200);
    });
  });
}
