// Idempotency-Key on our own POSTs: a retried mint returns the first key, never a second one.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { person } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, testInstance } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`Idempotency-Key on ${backend}`, () => {
    const instance = sharedInstance(backend, { clock: testClock(Date.UTC(2026, 9, 20, 12)) }); // within a month

    const keyed = (key: string) => ({ headers: { "idempotency-key": key } });

    it("replays the first response, marked as a replay, and mints nothing", async () => {
      const w = await instance.workspace();
      const want = { project_id: w.project_id, tenant_id: w.tenant_id, env: "live" };
      const first = await w.call("sk_owner", "POST /v1/keys", want, keyed('"mint-1"'));
      const retry = await w.call("sk_owner", "POST /v1/keys", want, keyed("mint-1"));
      expect(first.headers.get("idempotent-replayed")).toBeNull();
      expect(retry.headers.get("idempotent-replayed")).toBe("true");
      expect({ status: retry.status, body: retry.body }).toEqual({ status: first.status, body: first.body });
      expect(await w.actions()).toEqual(["api_key.created"]);
    });

    it("covers workspaces, rotation and repeated revocation", async () => {
      const w = await instance.workspace();
      const body = { name: "W", slug: `kept-${w.slug}` };
      const made = await w.call("bootstrap", "POST /v1/workspaces", body, keyed("ws"));
      expect((await w.call("bootstrap", "POST /v1/workspaces", body, keyed("ws"))).body).toEqual(made.body);
      const { id } = await w.mint();
      const rotated = await w.call("sk_owner", `POST /v1/keys/${id}/rotate`, {}, keyed("rot"));
      expect((await w.call("sk_owner", `POST /v1/keys/${id}/rotate`, {}, keyed("rot"))).body).toEqual(rotated.body);
      await w.call("sk_owner", `POST /v1/keys/${id}/revoke`, {}, keyed("rev"));
      await w.call("sk_owner", `POST /v1/keys/${id}/revoke`, {}, keyed("rev-again"));
      expectRefusal(
        await w.call("sk_owner", `POST /v1/keys/${id}/revoke`, { reason: "x" }, keyed("rev-again")),
        422,
        "idempotency_mismatch",
      );
      expect(await w.actions()).toEqual(["api_key.created", "api_key.rotated", "api_key.revoked"]);
    });

    it("replays what was to expire after it has expired, and refuses the same as a new request", async () => {
      const w = await instance.workspace();
      const quotas = [{ id: "calls", amount: 1, refill: "monthly" }];
      await w.call("sk_owner", `PATCH /v1/tenants/${w.tenant_id}`, { quotas });
      const expires_at = new Date(instance.clock.now() + 60_000).toISOString();
      const grants = `POST /v1/tenants/${w.tenant_id}/quotas/calls/grants`;
      const changes = [
        ["POST /v1/keys", { project_id: w.project_id, tenant_id: w.tenant_id, env: "live", expires_at }],
        ["POST /v1/secret_keys", { env: "live", expires_at }],
        [grants, { units: 5, expires_at }],
      ] as const;
      const send = () =>
        Promise.all(changes.map(([route, body]) => w.call("sk_owner", route, body, keyed(route.slice(5)))));
      const first = await send();
      const referred = { units: 5, expires_at, reference: "invoice" };
      const granted = await w.call("sk_owner", grants, referred);
      instance.clock.advance(60_000);
      expect((await send()).map(({ status, text }) => [status, text])).toEqual(first.map(({ text }) => [201, text]));
      const again = await w.call("sk_owner", grants, referred);
      expect([again.status, again.text]).toEqual([200, granted.text]);
      for (const [route, body] of changes)
        expectRefusal(await w.call("sk_owner", route, body), 400, "invalid_request", "expires_at");
    });

    it("gives a secret key that ended by its own rotation the response again, and nothing else", async () => {
      const w = await instance.workspace();
      const want = { env: "live", permissions: ["manage"] };
      const { id, key } = (await w.call("sk_owner", "POST /v1/secret_keys", want)).body;
      const rotate = (options?: ReturnType<typeof keyed>) =>
        instance.call(key, `POST /v1/secret_keys/${id}/rotate`, { overlap_hours: 0 }, options);
      const first = await rotate(keyed("self"));
      const again = await rotate(keyed("self"));
      expect({ status: again.status, body: again.body }).toEqual({ status: 200, body: first.body });
      expectRefusal(await rotate(keyed("other")), 401, "invalid_key");
      expectRefusal(await rotate(), 401, "invalid_key");
      expectRefusal(
        await instance.call(key, `POST /v1/secret_keys/${id}/revoke`, {}, keyed("end")),
        401,
        "invalid_key",
      );
      const tenant = { external_id: "x" };
      expectRefusal(await instance.call(key, "POST /v1/tenants", tenant, keyed("tenant")), 401, "invalid_key");
      await w.call("sk_owner", `POST /v1/secret_keys/${id}/revoke`, {});
      expectRefusal(await rotate(keyed("self")), 401, "invalid_key");
      expect(await w.actions()).toEqual(["secret_key.created", "secret_key.rotated", "secret_key.revoked"]);
    });

    it("rejects another payload or another route under the same key", async () => {
      const w = await instance.workspace();
      await w.call("sk_owner", "POST /v1/tenants", { external_id: "a" }, keyed("k"));
      expectRefusal(
        await w.call("sk_owner", "POST /v1/tenants", { external_id: "b" }, keyed("k")),
        422,
        "idempotency_mismatch",
      );
      expectRefusal(
        await w.call("sk_owner", "POST /v1/projects", { name: "a", slug: "aaa" }, keyed("k")),
        422,
        "idempotency_mismatch",
      );
      expect(await w.actions()).toEqual(["tenant.created"]);
    });

    it("does not store a refusal: the retry runs again", async () => {
      const w = await instance.workspace();
      const other = await w.call("sk_owner", "POST /v1/tenants", { external_id: "x" });
      expect((await w.call("sk_owner", "POST /v1/tenants", { external_id: "x" }, keyed("t"))).status).toBe(409);
      await w.call("sk_owner", `DELETE /v1/tenants/${other.body.id}`);
      expect((await w.call("sk_owner", "POST /v1/tenants", { external_id: "x" }, keyed("t"))).status).toBe(201);
    });

    it("scopes keys to a credential, and expires them after a day", async () => {
      const w = await instance.workspace();
      const body = { external_id: "mine" };
      const first = await w.call("sk_owner", "POST /v1/tenants", body, keyed("same"));
      expect((await w.call("sk_admin", "POST /v1/tenants", body, keyed("same"))).status).toBe(409);
      instance.clock.advance(DAY_MS - 1);
      const again = await w.call("sk_owner", "POST /v1/tenants", body, keyed("same"));
      expect([first.status, again.status, again.body.id]).toEqual([201, 201, first.body.id]);
      instance.clock.advance(1);
      expect((await w.call("sk_owner", "POST /v1/tenants", body, keyed("same"))).status).toBe(409);
    });

    it("scopes a session's keys to its active workspace, except when it creates one", async () => {
      const { session } = await person(instance);
      const workspace = (n: number) => ({ name: "W", slug: `scoped-${backend}-${n}` });
      const first = await instance.call(session, "POST /v1/workspaces", workspace(1), keyed("ws"));
      const retry = await instance.call(session, "POST /v1/workspaces", workspace(1), keyed("ws"));
      expect([retry.status, retry.text]).toEqual([201, first.text]);
      const second = await instance.call(session, "POST /v1/workspaces", workspace(2));
      const tenant = () => instance.call(session, "POST /v1/tenants", { external_id: "same" }, keyed("tenant"));
      const inFirst = await tenant();
      await instance.call(session, "POST /v1/auth/sessions/current/workspace", {
        workspace_id: second.body.workspace.id,
      });
      const inSecond = await tenant();
      expect([inSecond.status, inSecond.headers.get("idempotent-replayed")]).toEqual([201, null]);
      expect(inSecond.body.id).not.toBe(inFirst.body.id);
      expect((await tenant()).text).toBe(inSecond.text);
      await instance.call(session, "POST /v1/auth/sessions/current/workspace", {
        workspace_id: first.body.workspace.id,
      });
      expect((await tenant()).text).toBe(inFirst.text);
    });

    it("mints once for twenty concurrent requests; the others replay it or get 409", async () => {
      const w = await instance.workspace();
      const replies = await Promise.all(
        Array.from({ length: 20 }, () =>
          w.call("sk_owner", "POST /v1/tenants", { external_id: "t20" }, keyed("twenty")),
        ),
      );
      const made = replies.filter(({ status }) => status === 201);
      expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
      for (const other of replies.filter(({ status }) => status !== 201)) {
        expectRefusal(other, 409, "conflict");
        expect(other.headers.get("retry-after")).toBe("1");
      }
      expect(await w.actions()).toEqual(["tenant.created"]);
    });

    it("stores no readable key in the replay", async () => {
      const w = await instance.workspace();
      const { body } = await w.call("sk_owner", "POST /v1/secret_keys", { env: "live" }, keyed("sealed"));
      const rows = await instance.sql("select * from kept_answers");
      const text = rows.map((row) => Buffer.from(row.sealed_body as Uint8Array).toString("latin1")).join("\n");
      expect(rows.length).toBeGreaterThan(0);
      expect(text).not.toContain(body.key);
      expect(text).not.toContain(body.id);
    });

    for (const bad of ["", " ", "a b", "x".repeat(256), "é"]) {
      it(`rejects the key ${JSON.stringify(bad).slice(0, 12)} and names the header`, async () => {
        const w = await instance.workspace();
        const reply = await w.call("sk_owner", "POST /v1/tenants", { external_id: "z" }, keyed(`"${bad}"`));
        expectRefusal(reply, 400, "invalid_request", "idempotency-key");
        expect(await w.actions()).toEqual([]);
      });
    }
  });
}

describe.runIf(runBackends.includes("postgres"))("Idempotency-Key in two processes", () => {
  it("makes one key and one workspace, whichever process concurrent retries reach", async () => {
    await using one = await testInstance("postgres");
    await using two = await testInstance("postgres", { beside: one });
    const w = await one.workspace();
    const want = { project_id: w.project_id, tenant_id: w.tenant_id, env: "live" };
    const workspace = { name: "W", slug: `both-${w.slug}` };
    for (const [route, bearer, body] of [
      ["POST /v1/keys", w.keys.sk_owner, want],
      ["POST /v1/workspaces", one.app.bootstrap.token, workspace],
    ] as const) {
      const options = { headers: { "idempotency-key": "both" } };
      const replies = await Promise.all(
        [one, two, one, two, one, two].map((instance) => instance.call(bearer, route, body, options)),
      );
      const made = replies.filter(({ status }) => status === 201);
      expect(made.length).toBeGreaterThan(0);
      expect(new Set(made.map(({ text }) => text)).size).toBe(1);
      expect(made.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
      for (const reply of replies.filter(({ status }) => status !== 201)) {
        expectRefusal(reply, 409, "conflict");
        expect(reply.headers.get("retry-after"), reply.text).not.toBeNull(); // in flight, and not refused for good
      }
      expect((await two.call(bearer, route, body, options)).text).toBe(made[0]?.text);
    }
    expect(await w.actions()).toEqual(["api_key.created"]);
  });
});
