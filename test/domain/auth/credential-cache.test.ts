// The credential cache: one resolution per TTL, and never a key that is known to be revoked or expired.
import { describe, expect, it } from "vitest";
import { CredentialCache } from "../../../src/domain/auth/credential-cache.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { fail } from "../../../src/kernel/errors.ts";
import type { Reader } from "../../../src/store/engine/tx.ts";
import { resolveCached } from "../../../src/domain/auth/credentials.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { turns, until } from "../../../harness/waiting.ts";
import {
  expectRefusal,
  testInstance,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { sendRaw } from "../../../harness/processes/raw-http.ts";

const poll = (instance: TestInstance, bearer: string, workspace: Workspace): Promise<Reply> =>
  instance.call(bearer, `GET /v1/policy/delta?project_id=${workspace.project_id}&since=1`);

/** Counts how often secret keys are looked up in the database. */
function countResolutions(instance: TestInstance): () => number {
  const { read } = instance.app.services.store;
  const original = read.firstMemoized.bind(read);
  let n = 0;
  read.firstMemoized = (query) => {
    if (query.sql.includes('from "secret_keys" where "lookup_hash"')) n++;
    return original(query);
  };
  return () => n;
}

const actor = {
  kind: "secret_key",
  id: "i",
  workspace_id: "w",
  account_id: null,
  env: "live",
  owner_scope: false,
  restriction: null,
} as const;
const lasting = { ...actor, expires_at: null };

describe("the credential cache alone", () => {
  const newCache = (ttlMs = 5_000, durable: () => Promise<void> | undefined = () => undefined) => {
    const clock = testClock();
    const notices = new Map<string, (payload: string) => void>();
    const onNotice = (topic: string, listener: (payload: string) => void) => void notices.set(topic, listener);
    return {
      clock,
      notices,
      cache: new CredentialCache({
        clock,
        ttlMs,
        ledger: new Ledger({ bound: 10, share: 5, shareOf: "account" }),
        store: { dialect: "sqlite", read: {} as Reader, onNotice, notify: async () => {}, durable },
        log: { warn: () => {} },
      }),
    };
  };

  it("returns an entry until it or its key expires, and counts hits and misses", () => {
    const { clock, cache } = newCache();
    cache.set("lasting", lasting, cache.epoch);
    cache.set("ending", { ...actor, expires_at: clock.now() + 1_000 }, cache.epoch);
    clock.advance(999);
    expect([cache.get("lasting")?.id, cache.get("ending")?.id, cache.get("other")]).toEqual(["i", "i", undefined]);
    clock.advance(1);
    expect([cache.get("ending"), cache.size]).toEqual([undefined, 1]);
    clock.advance(3_999);
    expect(cache.get("lasting")).toEqual(lasting);
    clock.advance(1);
    expect([cache.get("lasting"), cache.size]).toEqual([undefined, 0]);
    expect(cache.reads).toEqual({ hits: 3, misses: 3 });
  });

  it("evicts a key on its notice, and everything on resync", () => {
    const { notices, cache } = newCache();
    for (const id of ["a", "b", "c"]) cache.set(id, { ...lasting, id }, cache.epoch);
    notices.get("secret_key")?.("b");
    expect([cache.get("a")?.id, cache.get("b"), cache.get("c")?.id]).toEqual(["a", undefined, "c"]);
    notices.get("resync")?.("");
    expect(cache.size).toBe(0);
  });

  it("stores nothing that was read before a notice or a resync, and nothing at all with a TTL of 0", () => {
    for (const topic of ["secret_key", "resync"]) {
      const { notices, cache } = newCache();
      const { epoch } = cache;
      notices.get(topic)?.("i");
      cache.set("h", lasting, epoch);
      expect(cache.size).toBe(0);
      cache.set("h", lasting, cache.epoch);
      expect(cache.size).toBe(1);
    }
    const { cache } = newCache(0);
    cache.set("h", lasting, cache.epoch);
    expect(cache.size).toBe(0);
  });

  it("returns and keeps what was read only once it is durable", async () => {
    for (const ttlMs of [5_000, 0]) {
      const synced = Promise.withResolvers<void>();
      const awaited = Promise.withResolvers<void>();
      const { cache } = newCache(ttlMs, () => {
        awaited.resolve();
        return synced.promise;
      });
      let loaded = false;
      const loading = Promise.resolve(cache.load("h", () => lasting)).finally(() => (loaded = true));
      await awaited.promise;
      await turns(3);
      expect([loaded, cache.get("h")]).toEqual([false, undefined]);
      synced.resolve();
      expect(await loading).toEqual(lasting);
      expect(cache.size).toBe(ttlMs === 0 ? 0 : 1);
    }
    const { cache } = newCache(5_000, () => Promise.reject(new Error("EIO")));
    await expect(cache.load("h", () => lasting)).rejects.toThrow(fail("unavailable").message);
    expect(cache.size).toBe(0);
  });
});

for (const backend of backends) {
  describe(`the credential cache on ${backend}`, () => {
    it("resolves a secret key once per TTL, on the machine plane only", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const resolved = countResolutions(instance);
      for (let i = 0; i < 5; i++) expect((await poll(instance, workspace.keys.sk_owner, workspace)).status).toBe(304);
      expect(resolved()).toBe(1);
      instance.clock.advance(5_000);
      await poll(instance, workspace.keys.sk_owner, workspace);
      expect(resolved()).toBe(2);
      for (let i = 0; i < 3; i++) await workspace.call("sk_owner", "GET /v1/workspace");
      expect(resolved()).toBe(5);
    });

    it("is off with a TTL of 0", async () => {
      await using instance = await testInstance(backend, { flags: { hot_auth_ttl_ms: "0" } });
      const workspace = await instance.workspace();
      const resolved = countResolutions(instance);
      for (let i = 0; i < 3; i++) await poll(instance, workspace.keys.sk_owner, workspace);
      expect([resolved(), instance.app.services.credentialCache.size]).toEqual([3, 0]);
    });

    it("rejects a revoked key at once", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      expect((await poll(instance, workspace.keys.sk_admin, workspace)).status).toBe(304);
      await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});
      expectRefusal(await poll(instance, workspace.keys.sk_admin, workspace), 401, "invalid_key");
      expect((await poll(instance, workspace.keys.sk_owner, workspace)).status).toBe(304);
    });

    it("applies the shorter expiry of a rotated key at once, and rejects a key at the moment it expires", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      expect((await poll(instance, workspace.keys.sk_admin, workspace)).status).toBe(304);
      const rotated = await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/rotate`, {
        overlap_hours: 0.001,
      });
      expect(rotated.status).toBe(200);
      expect((await poll(instance, workspace.keys.sk_admin, workspace)).status).toBe(304);
      instance.clock.advance(3_599);
      expect((await poll(instance, workspace.keys.sk_admin, workspace)).status).toBe(304);
      instance.clock.advance(1);
      expectRefusal(await poll(instance, workspace.keys.sk_admin, workspace), 401, "invalid_key");
      await workspace.call("sk_owner", `POST /v1/secret_keys/${rotated.body.id}/rotate`, { overlap_hours: 0 });
      expectRefusal(await poll(instance, rotated.body.key, workspace), 401, "invalid_key");
    });

    it("is read once for a request whose body comes with its headers, and again for one whose body comes later", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const body = JSON.stringify({ lease_id: "none", unused: 0 });
      const head = [
        "POST /v1/ratelimit/return HTTP/1.1",
        "host: localhost",
        `authorization: Bearer ${workspace.keys.sk_owner}`,
        "content-type: application/json",
        `content-length: ${body.length}`,
      ].join("\r\n");
      const { credentialCache } = instance.app.services;
      const reads = (): number => credentialCache.reads.hits + credentialCache.reads.misses;
      const readsFor = async (...parts: string[]): Promise<number> => {
        const before = reads();
        await sendRaw(instance.url, parts, { count: 1, between: () => until(() => reads() > before) });
        return reads() - before;
      };
      expect(await readsFor(`${head}\r\n\r\n${body}`)).toBe(1);
      expect(await readsFor(`${head}\r\n\r\n`, body)).toBe(2);
    });

    it("does not cache rejected credentials", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const before = instance.app.services.credentialCache.size;
      for (const bad of ["krsk_live_x", "nonsense", workspace.keys.sk_owner.replace(/.$/, "x")])
        await poll(instance, bad, workspace);
      expect(instance.app.services.credentialCache.size).toBe(before);
    });

    it("holds ten thousand entries at most, a quarter of them of one account", async () => {
      await using instance = await testInstance(backend);
      const { credentialCache } = instance.app.services;
      for (let i = 0; i < 2_600; i++) credentialCache.set(`h${i}`, lasting, credentialCache.epoch);
      expect(credentialCache.size).toBe(2_500);
      expect([credentialCache.get("h99"), credentialCache.get("h100")]).toEqual([undefined, lasting]);
      const of = (account_id: string) => ({ ...lasting, workspace_id: account_id, account_id });
      for (const account of ["b", "c", "d", "e"])
        for (let i = 0; i < 2_500; i++) credentialCache.set(`${account}${i}`, of(account), credentialCache.epoch);
      expect([credentialCache.size, credentialCache.get("b0") !== undefined]).toEqual([10_000, false]);
    });

    it("neither returns nor stores a resolution that began before a revocation", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const { services } = instance.app;
      const { read } = services.store;
      const original = read.firstMemoized.bind(read);
      let overtaken: Promise<unknown> | undefined;
      read.firstMemoized = (async (query: Parameters<typeof original>[0]) => {
        const row = await original(query);
        if (query.sql.includes('from "secret_keys" where "lookup_hash"') && query.values.length === 1 && !overtaken) {
          overtaken = Promise.resolve(); // the row has been read; now it is revoked before the read returns
          await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});
        }
        return row;
      }) as typeof read.firstMemoized;
      await expect(Promise.resolve(resolveCached(services, workspace.keys.sk_admin))).rejects.toMatchObject({
        code: "invalid_key",
      });
      read.firstMemoized = original;
      await expect(Promise.resolve(resolveCached(services, workspace.keys.sk_admin))).rejects.toMatchObject({
        code: "invalid_key",
      });
    });
  });
}

describe.runIf(backends.includes("postgres"))("two processes on one PostgreSQL", () => {
  it("evict a secret key as soon as the other revokes it", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const workspace = await a.workspace();
    expect((await poll(b, workspace.keys.sk_admin, workspace)).status).toBe(304);
    expect(b.app.services.credentialCache.size).toBe(1);
    const noticed = new Promise<string>((resolve) => b.app.services.store.onNotice("secret_key", resolve));
    await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});
    expect(await noticed).toBe(workspace.keyIds.sk_admin);
    expectRefusal(await poll(b, workspace.keys.sk_admin, workspace), 401, "invalid_key");
  });

  it("wake each other's long polls when a key is revoked, and count each other's acknowledgements", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const workspace = await a.workspace();
    const key = await workspace.mint();
    const ask = (since: number, more: string): Promise<Reply> =>
      b.call(
        workspace.keys.sk_owner,
        `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}&node=n${more}`,
      );
    const waiting = ask(2, "&wait_ms=25000");
    await until(() => b.app.services.feed.waiting > 0);
    await b.app.services.nodes.flushed();
    const revoked = workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
    const { status, body } = await waiting;
    expect([status, body.version, body.changes[0].reason]).toEqual([200, 3, "revoked"]);
    await ask(3, "");
    expect((await revoked).body.propagation).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
  });

  it("read the head every time: a poll after a revocation elsewhere never gets 304", async () => {
    await using a = await testInstance("postgres");
    await using b = await testInstance("postgres", { beside: a });
    const workspace = await a.workspace();
    const key = await workspace.mint();
    for (let i = 0; i < 20; i++) {
      const { body } = await a.call(workspace.keys.sk_owner, `GET /v1/projects/${workspace.project_id}`);
      await a.call(workspace.keys.sk_owner, `PATCH /v1/keys/${key.id}`, { scopes: [`s${i}`] });
      const reply = await b.call(
        workspace.keys.sk_owner,
        `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${body.policy_version}`,
      );
      expect(reply.status).toBe(200);
    }
  });
});
