// A credential is judged when it acts: a request that began before its credential ended does nothing after it.
import { describe, expect, it, vi } from "vitest";
import { rotateSigningKey } from "../../src/domain/embed/signing-keys.ts";
import { SYSTEM } from "../../src/domain/core/actor.ts";
import { record } from "../../src/domain/core/record.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { embed, ORIGIN } from "../../harness/instances/embed.ts";
import {
  auditRows,
  freshEmail,
  logIn,
  memberOf,
  receivedMail,
  team,
  type Team,
} from "../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, testInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { actsAfterEnd } from "../../harness/models/ended-credentials.ts";
import { codeOf, holdLastByte, type RawResponse } from "../../harness/processes/raw-http.ts";
import { until } from "../../harness/waiting.ts";

for (const backend of runBackends) {
  describe(`a request that outlives its credential on ${backend}`, () => {
    const instance = sharedInstance(backend, { leads: false }); // inOneCommit counts what is queued

    /** Ends the credential while the last byte of the request is held back. */
    const late = async (
      bearer: string,
      route: string,
      body: unknown,
      end: () => Promise<unknown>,
      headers: Record<string, string> = {},
    ): Promise<RawResponse> => {
      const held = await holdLastByte(instance.url, bearer, route, body, headers);
      await end();
      return held.finish();
    };
    const revokeKey = (w: Workspace, which: "sk_admin" | "sk_test" = "sk_admin") =>
      w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds[which]}/revoke`, {});
    const remove = (t: Team, user_id: string) => instance.call(t.key, `DELETE /v1/members/${user_id}`);
    const demote = (t: Team, user_id: string) =>
      instance.call(t.key, `PATCH /v1/members/${user_id}`, { role: "admin" });
    const soundChain = async (workspace_id: string): Promise<void> =>
      expect(actsAfterEnd(await auditRows(instance, workspace_id))).toEqual([]);

    it("mints nothing for a revoked secret key", async () => {
      const w = await instance.workspace();
      const refused = await late(w.keys.sk_admin, "POST /v1/secret_keys", { env: "live" }, () => revokeKey(w));
      expect(codeOf(refused)).toEqual([401, "invalid_key"]);
      expect(await w.actions()).toEqual(["secret_key.revoked"]);
      await soundChain(w.id);
    });

    it("mints nothing for a secret key that was rotated without overlap, or that expired", async () => {
      const w = await instance.workspace();
      const { project_id, tenant_id } = w;
      const want = { project_id, tenant_id, env: "live" };
      const rotated = await late(w.keys.sk_admin, "POST /v1/keys", want, () =>
        w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/rotate`, { overlap_hours: 0 }),
      );
      expect(codeOf(rotated)).toEqual([401, "invalid_key"]);
      const expires_at = new Date(instance.clock.now() + 1_000).toISOString();
      const { body: brief } = await w.call("sk_owner", "POST /v1/secret_keys", { env: "live", expires_at });
      const expired = await late(brief.key, "POST /v1/keys", want, async () => instance.clock.advance(1_000));
      expect(codeOf(expired)).toEqual([401, "invalid_key"]);
      expect(await w.actions()).toEqual(["secret_key.rotated", "secret_key.created"]);
      await soundChain(w.id);
    });

    it("sends no invitation for a removed owner", async () => {
      const t = await team(instance);
      const leaving = await memberOf(instance, t, "owner");
      const email = freshEmail("guest");
      const refused = await late(leaving.session, "POST /v1/invites", { email, role: "owner" }, () =>
        remove(t, leaving.id),
      );
      expect(codeOf(refused)).toEqual([403, "forbidden"]);
      expect(await receivedMail(instance, email)).toEqual([]);
      expect(
        (await instance.call(t.key, "GET /v1/invites")).body.data.map((i: { email: string }) => i.email),
      ).not.toContain(email);
      await soundChain(t.id);
    });

    it("gives a demoted owner the rights of the new role", async () => {
      const t = await team(instance);
      const demoted = await memberOf(instance, t, "owner");
      const invite = { email: freshEmail("guest"), role: "owner" };
      const held = await holdLastByte(instance.url, demoted.session, "POST /v1/secret_keys", { env: "live" });
      const refused = await late(demoted.session, "POST /v1/invites", invite, () => demote(t, demoted.id));
      expect(codeOf(refused)).toEqual([403, "forbidden"]);
      const minted = await held.finish();
      expect(minted.status).toBe(201);
      const [row] = await instance.sql("select owner_scope from secret_keys where id = $1", [
        JSON.parse(minted.body).id,
      ]);
      expect(Number(row?.owner_scope)).toBe(0);
      await soundChain(t.id);
    });

    it("changes nothing for a session that was logged out, or whose password was changed elsewhere", async () => {
      const t = await team(instance);
      const ended = await logIn(instance, t.owner.email);
      const name = `Late ${ended.session_id}`;
      const refused = await late(ended.session, "PATCH /v1/auth/me", { name }, () =>
        instance.call(ended.session, "DELETE /v1/auth/sessions/current"),
      );
      expect(codeOf(refused)).toEqual([401, "invalid_session"]);
      const other = await logIn(instance, t.owner.email);
      const passwords = { current_password: t.owner.password, password: "another long enough pass phrase" };
      const outdated = await late(other.session, "POST /v1/secret_keys", { env: "live" }, () =>
        instance.call(t.owner.session, "POST /v1/auth/me/password", passwords),
      );
      expect(codeOf(outdated)).toEqual([401, "invalid_session"]);
      expect((await instance.call(t.owner.session, "GET /v1/members")).body.data[0].name).toBeNull();
      expect((await auditRows(instance, t.id)).filter(({ action }) => action === "secret_key.created")).toHaveLength(1);
    });

    it("creates no key for an embed token of an old epoch, a removed origin or a withdrawn signing key", async () => {
      const ends = {
        401: (w: Workspace) => w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/embed_tokens/revoke`, {}),
        403: (w: Workspace) => w.call("sk_owner", "PATCH /v1/workspace", { embed_origins: ["https://other.example"] }),
      };
      for (const [status, end] of Object.entries(ends)) {
        const { workspace: w, minted } = await embed(instance);
        const refused = await late(minted.token, "POST /v1/embed/keys", {}, () => end(w), { origin: ORIGIN });
        expect(refused.status).toBe(Number(status));
        expect(await w.actions()).not.toContain("api_key.created");
        await soundChain(w.id);
      }
      const { workspace: w, minted } = await embed(instance);
      const withdraw = () =>
        rotateSigningKey({ services: instance.app.services, actor: SYSTEM }, { compromised: true });
      const refused = await late(minted.token, "POST /v1/embed/keys", {}, withdraw, { origin: ORIGIN });
      expect(codeOf(refused)).toEqual([401, "invalid_embed_token"]);
      expect(await w.actions()).not.toContain("api_key.created");
    });

    it("replays no stored response to a revoked key, and stores none", async () => {
      const w = await instance.workspace();
      const headers = { "idempotency-key": "again" };
      const body = { external_id: "late" };
      expect((await w.call("sk_admin", "POST /v1/tenants", body, { headers })).status).toBe(201);
      const stored = async () => (await instance.sql("select count(*) as n from kept_answers"))[0]?.n;
      const before = await stored();
      const refused = await late(w.keys.sk_admin, "POST /v1/tenants", body, () => revokeKey(w), headers);
      expect(codeOf(refused)).toEqual([401, "invalid_key"]);
      expect(await stored()).toEqual(before);
    });

    it("counts nothing on the machine plane for a revoked key", async () => {
      const w = await instance.workspace();
      const { project_id } = w;
      const limits = [{ id: "hourly", limit: 5, window_ms: 3_600_000, algorithm: "fixed", scope: "key" }];
      const check = { project_id, env: "live", key_id: w.keyIds.sk_owner, limits };
      const scope = { scope_hash: "a".repeat(64), fingerprint: "b".repeat(64), env: "live" };
      const held = [
        await holdLastByte(instance.url, w.keys.sk_admin, "POST /v1/ratelimit/check", check),
        await holdLastByte(instance.url, w.keys.sk_admin, "POST /v1/idempotency/claim", scope),
        await holdLastByte(instance.url, w.keys.sk_admin, "POST /v1/ingest/batch", { object: "ingest_batch" }),
        await holdLastByte(instance.url, w.keys.sk_admin, "POST /v1/embed_tokens", { project_id, env: "live" }),
      ];
      await revokeKey(w);
      for (const request of held) expect(codeOf(await request.finish())).toEqual([401, "invalid_key"]);
      const { body } = await w.call("sk_owner", "POST /v1/ratelimit/check", check);
      expect(body.policies[0].remaining).toBe(4);
      expect((await w.call("sk_owner", "POST /v1/idempotency/claim", scope)).body.state).toBe("execute");
    });

    it("completes nothing for a key that is revoked while its large body waits for a turn", async () => {
      const w = await instance.workspace();
      const scope = { scope_hash: "c".repeat(64), fingerprint: "d".repeat(64), env: "test" };
      const { body: claimed } = await w.call("sk_test", "POST /v1/idempotency/claim", scope);
      const { scope_hash, env } = scope;
      const answer = { scope_hash, env, lock_token: claimed.lock_token, status: 200, body: "eHh4".repeat(25_000) };
      const held = await holdLastByte(instance.url, w.keys.sk_test, "POST /v1/idempotency/complete", answer);
      const waiting: (() => void)[] = [];
      const turns = vi.spyOn(Turns.prototype, "run").mockImplementation((owner, work) => {
        if (owner.id === `${w.id}/test`) waiting.push(work);
        else work();
      });
      try {
        const refused = held.finish();
        await until(() => waiting.length > 0);
        await revokeKey(w, "sk_test");
        for (const work of waiting) work();
        expect(codeOf(await refused)).toEqual([401, "invalid_key"]);
      } finally {
        turns.mockRestore();
      }
      expect((await w.call("sk_owner", "POST /v1/idempotency/claim", scope)).body.state).toBe("in_progress");
    });

    /** Runs both changes in one commit, in this order; the second was authenticated before the first was committed. */
    const inOneCommit = async <A, B>(first: () => Promise<A>, second: () => Promise<B>): Promise<[A, B]> => {
      const { store, touched, clock } = instance.app.services;
      // The last use of a credential would be queued too, before the change.
      const used = vi.spyOn(touched, "get").mockReturnValue(clock.now());
      await until(() => store.backlog === 0);
      const hold = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const holding = record(instance.app.services, () => (begun.resolve(), hold.promise));
      await begun.promise;
      const queued = async (n: number): Promise<void> => {
        while (store.backlog < n) await new Promise((resolve) => setImmediate(resolve));
      };
      const before = first();
      await queued(1);
      const after = second();
      await queued(2);
      hold.resolve();
      await holding;
      const both = await Promise.all([before, after]);
      used.mockRestore();
      return both;
    };

    describe("is refused also in the commit that ends the credential", () => {
      it("when a secret key is revoked", async () => {
        const w = await instance.workspace();
        const tenants = () =>
          Promise.all(["a", "b", "c"].map((id) => w.call("sk_admin", "POST /v1/tenants", { external_id: id })));
        const [revoked, refused] = await inOneCommit(() => revokeKey(w), tenants);
        expect(revoked.status).toBe(200);
        for (const reply of refused) expectRefusal(reply, 401, "invalid_key");
        expect(await w.actions()).toEqual(["secret_key.revoked"]);
      });

      it("when a person logs out, is removed or demoted", async () => {
        const t = await team(instance);
        const [leaving, demoted] = [await memberOf(instance, t, "owner"), await memberOf(instance, t, "owner")];
        const other = await logIn(instance, t.owner.email);
        const mint = (session: string) => () => instance.call(session, "POST /v1/secret_keys", { env: "live" });
        const logOut = () => instance.call(other.session, "DELETE /v1/auth/sessions/current");
        expectRefusal((await inOneCommit(logOut, mint(other.session)))[1], 401, "invalid_session");
        expectRefusal((await inOneCommit(() => remove(t, leaving.id), mint(leaving.session)))[1], 403, "forbidden");
        const invite = () => instance.call(demoted.session, "POST /v1/invites", { email: freshEmail(), role: "owner" });
        expectRefusal((await inOneCommit(() => demote(t, demoted.id), invite))[1], 403, "forbidden");
        expect((await auditRows(instance, t.id)).filter(({ action }) => action === "secret_key.created")).toHaveLength(
          1,
        );
        await soundChain(t.id);
      });

      it("when a person logs out and switches to another workspace", async () => {
        const t = await team(instance);
        const { id, session } = await logIn(instance, t.owner.email);
        const last = async () =>
          (await instance.sql("select last_workspace_id as id from users where id = $1", [id]))[0]?.id;
        const made = await instance.call(session, "POST /v1/workspaces", { name: "Other", slug: `other-${t.id}` });
        const { id: workspace_id } = made.body.workspace;
        const change = () => instance.call(session, "POST /v1/auth/sessions/current/workspace", { workspace_id });
        const logOut = () => instance.call(session, "DELETE /v1/auth/sessions/current");
        expectRefusal((await inOneCommit(logOut, change))[1], 401, "invalid_session");
        expect(await last()).toBe(t.id);
      });

      it("when a demoted owner mints: the key has an admin's rights", async () => {
        const t = await team(instance);
        const demoted = await memberOf(instance, t, "owner");
        const mint = () => instance.call(demoted.session, "POST /v1/secret_keys", { env: "live" });
        const [, { status, body }] = await inOneCommit(() => demote(t, demoted.id), mint);
        expect(status).toBe(201);
        const [row] = await instance.sql("select owner_scope from secret_keys where id = $1", [body.id]);
        expect(Number(row?.owner_scope)).toBe(0);
      });

      it("when the embed tokens of a tenant are revoked", async () => {
        const e = await embed(instance);
        const { workspace: w } = e;
        const revoke = () => w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/embed_tokens/revoke`, {});
        const [, refused] = await inOneCommit(revoke, () => e.call("POST /v1/embed/keys", {}));
        expectRefusal(refused, 401, "invalid_embed_token");
        expect(await w.actions()).not.toContain("api_key.created");
      });
    });

    it("is counted by the kind of its credential", async () => {
      await using counted = await testInstance(backend, { flags: { metrics: "127.0.0.1:0" } });
      const w = await counted.workspace();
      const held = await holdLastByte(counted.url, w.keys.sk_admin, "POST /v1/tenants", { external_id: "x" });
      await revokeKey(w);
      await held.finish();
      const text = await (await fetch(counted.app.metricsUrl ?? "")).text();
      const lines = text.split("\n").filter((line) => line.startsWith("keyrack_late_refusals_total{"));
      expect(lines).toContain('keyrack_late_refusals_total{kind="secret_key"} 1');
      expect(lines).toContain('keyrack_late_refusals_total{kind="session"} 0');
    });

    it("is answered when its credential has rights enough, after a change of the credential", async () => {
      const w = await instance.workspace();
      const rotate = () => w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/rotate`, { overlap_hours: 1 });
      const made = await late(w.keys.sk_admin, "POST /v1/tenants", { external_id: "overlap" }, rotate);
      expect(made.status).toBe(201);
      expect(await w.actions()).toEqual(["secret_key.rotated", "tenant.created"]);
    });
  });
}
