// The hot-auth cache (decision 144): one resolution a period, and never a key that is known to be gone.
import { describe, expect, it } from "vitest";
import { CredentialCache } from "../../../src/domain/auth/credential-cache.ts";
import { resolveCached } from "../../../src/domain/auth/credentials.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import {
  expectRefusal,
  testInstance,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";

const poll = (r: TestInstance, bearer: string, w: Workspace): Promise<Reply> =>
  r.call(bearer, `GET /v1/policy/delta?project_id=${w.project_id}&since=1`);

/** Counts how often secret keys are looked up in the database. */
function countResolutions(r: TestInstance): () => number {
  const { read } = r.app.services.store;
  const shared = read.firstMemoized.bind(read);
  let n = 0;
  read.firstMemoized = (query) => {
    if (query.sql.includes('from "secret_keys" where "lookup_hash"')) n++;
    return shared(query);
  };
  return () => n;
}

describe("the hot-auth cache by itself", () => {
  const actor = { kind: "secret_key", id: "i", workspace_id: "w", env: "live", owner_scope: false } as const;
  const lasting = { ...actor, expires_at: null };
  const cache = (ttlMs = 5_000) => {
    const clock = testClock();
    const hear = new Map<string, (payload: string) => void>();
    const onNotice = (topic: string, listener: (payload: string) => void) => void hear.set(topic, listener);
    return {
      clock,
      hear,
      hot: new CredentialCache({ clock, ttlMs, store: { onNotice, notify: async () => {} }, log: { warn: () => {} } }),
    };
  };

  it("finds an entry until its time is up or its key expires, then forgets it, and counts both", () => {
    const { clock, hot } = cache();
    hot.set("lasting", lasting, hot.epoch);
    hot.set("ending", { ...actor, expires_at: clock.now() + 1_000 }, hot.epoch);
    clock.advance(999);
    expect([hot.get("lasting")?.id, hot.get("ending")?.id, hot.get("other")]).toEqual(["i", "i", undefined]);
    clock.advance(1);
    expect([hot.get("ending"), hot.size]).toEqual([undefined, 1]);
    clock.advance(3_999);
    expect(hot.get("lasting")).toEqual(lasting);
    clock.advance(1);
    expect([hot.get("lasting"), hot.size]).toEqual([undefined, 0]);
    expect(hot.reads).toEqual({ hits: 3, misses: 3 });
  });

  it("drops one key's entries when it is told of that key, and all of them after a gap in what it was told", () => {
    const { hear, hot } = cache();
    for (const id of ["a", "b", "c"]) hot.set(id, { ...lasting, id }, hot.epoch);
    hear.get("secret_key")?.("b");
    expect([hot.get("a")?.id, hot.get("b"), hot.get("c")?.id]).toEqual(["a", undefined, "c"]);
    hear.get("resync")?.("");
    expect(hot.size).toBe(0);
  });

  it("keeps nothing that was read before a notice, of either kind, and nothing at all with a period of 0", () => {
    for (const topic of ["secret_key", "resync"]) {
      const { hear, hot } = cache();
      const { epoch } = hot;
      hear.get(topic)?.("i");
      hot.set("h", lasting, epoch);
      expect(hot.size).toBe(0);
      hot.set("h", lasting, hot.epoch);
      expect(hot.size).toBe(1);
    }
    const { hot } = cache(0);
    hot.set("h", lasting, hot.epoch);
    expect(hot.size).toBe(0);
  });
});

for (const back of backends) {
  describe(`hot auth on ${back}`, () => {
    it("resolves a secret key once a period, on the machine plane only", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const resolved = countResolutions(r);
      for (let i = 0; i < 5; i++) expect((await poll(r, w.keys.sk_owner, w)).status).toBe(304);
      expect(resolved()).toBe(1);
      r.clock.advance(5_000);
      await poll(r, w.keys.sk_owner, w);
      expect(resolved()).toBe(2);
      for (let i = 0; i < 3; i++) await w.call("sk_owner", "GET /v1/workspace");
      expect(resolved()).toBe(5);
    });

    it("is off with a period of 0", async () => {
      await using r = await testInstance(back, { flags: { hot_auth_ttl_ms: "0" } });
      const w = await r.workspace();
      const resolved = countResolutions(r);
      for (let i = 0; i < 3; i++) await poll(r, w.keys.sk_owner, w);
      expect([resolved(), r.app.services.credentialCache.size]).toEqual([3, 0]);
    });

    it("refuses a revoked key at once", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      expect((await poll(r, w.keys.sk_admin, w)).status).toBe(304);
      await w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/revoke`, {});
      expectRefusal(await poll(r, w.keys.sk_admin, w), 401, "invalid_key");
      expect((await poll(r, w.keys.sk_owner, w)).status).toBe(304);
    });

    it("sees a rotation's shorter expiry at once, and an expiry at its moment", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      expect((await poll(r, w.keys.sk_admin, w)).status).toBe(304);
      const rotated = await w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/rotate`, {
        overlap_hours: 0.001,
      });
      expect(rotated.status).toBe(200);
      expect((await poll(r, w.keys.sk_admin, w)).status).toBe(304);
      r.clock.advance(3_599);
      expect((await poll(r, w.keys.sk_admin, w)).status).toBe(304);
      r.clock.advance(1);
      expectRefusal(await poll(r, w.keys.sk_admin, w), 401, "invalid_key");
      await w.call("sk_owner", `POST /v1/secret_keys/${rotated.body.id}/rotate`, { overlap_hours: 0 });
      expectRefusal(await poll(r, rotated.body.key, w), 401, "invalid_key");
    });

    it("keeps no refusal: a key works from its first moment", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const before = r.app.services.credentialCache.size;
      for (const bad of ["krsk_live_x", "nonsense", w.keys.sk_owner.replace(/.$/, "x")]) await poll(r, bad, w);
      expect(r.app.services.credentialCache.size).toBe(before);
    });

    it("holds ten thousand entries at most", async () => {
      await using r = await testInstance(back);
      const { credentialCache } = r.app.services;
      const actor = {
        kind: "secret_key",
        id: "i",
        workspace_id: "w",
        env: "live",
        owner_scope: false,
        expires_at: null,
      } as const;
      for (let i = 0; i < 10_500; i++) credentialCache.set(`h${i}`, actor, credentialCache.epoch);
      expect(credentialCache.size).toBe(10_000);
      expect([credentialCache.get("h499"), credentialCache.get("h500")]).toEqual([undefined, actor]);
    });

    it("does not keep a resolution that a revocation overtook", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const { services: inside } = r.app;
      const { read } = inside.store;
      const shared = read.firstMemoized.bind(read);
      let overtaken: Promise<unknown> | undefined;
      read.firstMemoized = (async (query: Parameters<typeof shared>[0]) => {
        const row = await shared(query);
        if (query.sql.includes('from "secret_keys" where "lookup_hash"') && query.values.length === 1 && !overtaken) {
          overtaken = Promise.resolve(); // the row has been read; now it is revoked before anybody is told
          await w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/revoke`, {});
        }
        return row;
      }) as typeof read.firstMemoized;
      await resolveCached(inside, w.keys.sk_admin);
      read.firstMemoized = shared;
      await expect(Promise.resolve(resolveCached(inside, w.keys.sk_admin))).rejects.toMatchObject({
        code: "invalid_key",
      });
    });
  });
}

describe.runIf(backends.includes("postgres"))("two processes on one PostgreSQL", () => {
  it("forget a secret key as soon as the other revokes it", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const w = await a.workspace();
    expect((await poll(b, w.keys.sk_admin, w)).status).toBe(304);
    expect(b.app.services.credentialCache.size).toBe(1);
    const heard = new Promise<string>((resolve) => b.app.services.store.onNotice("secret_key", resolve));
    await w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/revoke`, {});
    expect(await heard).toBe(w.keyIds.sk_admin);
    expectRefusal(await poll(b, w.keys.sk_admin, w), 401, "invalid_key");
  });

  it("wake each other's waiting polls when a key is revoked, and see each other's nodes acknowledge", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const w = await a.workspace();
    const key = await w.mint();
    const ask = (since: number, more: string): Promise<Reply> =>
      b.call(w.keys.sk_owner, `GET /v1/policy/delta?project_id=${w.project_id}&since=${since}&node=n${more}`);
    const waiting = ask(2, "&wait_ms=25000");
    while (b.app.services.feed.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    await b.app.services.nodes.flushed();
    const revoked = w.call("sk_owner", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
    const { status, body } = await waiting;
    expect([status, body.version, body.changes[0].reason]).toEqual([200, 3, "revoked"]);
    await ask(3, "");
    expect((await revoked).body.propagation).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
  });

  it("read the head afresh: a poll after a revocation elsewhere never answers 304", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const w = await a.workspace();
    const key = await w.mint();
    for (let i = 0; i < 20; i++) {
      const { body } = await a.call(w.keys.sk_owner, `GET /v1/projects/${w.project_id}`);
      await a.call(w.keys.sk_owner, `PATCH /v1/keys/${key.id}`, { scopes: [`s${i}`] });
      const reply = await b.call(
        w.keys.sk_owner,
        `GET /v1/policy/delta?project_id=${w.project_id}&since=${body.policy_version}`,
      );
      expect(reply.status).toBe(200);
    }
  });
});
