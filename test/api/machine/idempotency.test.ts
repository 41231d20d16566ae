// The four idempotency calls over HTTP: every verdict, on every store.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  expectRefusal,
  type Json,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { claimStores } from "../../../harness/instances/claim-stores.ts";

const hex = (): string => randomBytes(32).toString("hex");
const base64 = (size: number): string => randomBytes(size).toString("base64");

for (const store of claimStores) {
  describe(`idempotency on ${store.name}`, () => {
    let instance: TestInstance;
    let workspace: Workspace;
    beforeAll(async () => {
      instance = await store.open();
      workspace = await instance.workspace();
    });
    afterAll(async () => {
      await instance[Symbol.asyncDispose]();
      await store.close();
    });

    const call = (verb: string, body: Json, as: "sk_owner" | "sk_test" = "sk_owner"): Promise<Reply> =>
      workspace.call(as, `POST /v1/idempotency/${verb}`, body);
    const verdict = async (verb: string, body: Json): Promise<Json> => {
      const { status, body: answer } = await call(verb, body);
      expect(status).toBe(200);
      return answer as Json;
    };
    const fresh = () => ({ scope_hash: hex(), fingerprint: hex(), env: "live" });
    const held = async (scope = fresh()) => {
      const claimed = await verdict("claim", scope);
      expect(claimed.state).toBe("execute");
      const { scope_hash, env } = scope;
      return { scope, lock: { scope_hash, env, lock_token: claimed.lock_token as string } };
    };

    it("grants the first claim, with a token and nothing to replay", async () => {
      const answer = await verdict("claim", fresh());
      expect(answer).toEqual({
        object: "idempotency_claim",
        state: "execute",
        lock_token: expect.stringMatching(/^[A-Za-z0-9_-]{32}$/),
        lock_ms: 30_000,
        stolen: false,
        retry_after_ms: null,
        response: null,
        max_body_bytes: 262_144,
      });
    });

    it("returns the remaining lock time to a second claimant", async () => {
      const { scope } = await held();
      instance.clock.advance(10_000);
      const answer = await verdict("claim", scope);
      expect(answer).toMatchObject({ state: "in_progress", lock_token: null, stolen: false, response: null });
      expect(answer.retry_after_ms).toBe(20_000);
      instance.clock.advance(19_950);
      expect((await verdict("claim", scope)).retry_after_ms).toBe(100);
    });

    it("reports another fingerprint as a mismatch at every stage until the ttl ends", async () => {
      const { scope, lock } = await held();
      const other = { ...scope, fingerprint: hex() };
      expect((await verdict("claim", other)).state).toBe("mismatch");
      instance.clock.advance(30_001);
      expect((await verdict("claim", other)).state).toBe("mismatch");
      await verdict("complete", { ...lock, status: 201 });
      expect(await verdict("claim", other)).toMatchObject({ state: "mismatch", response: null, retry_after_ms: null });
      instance.clock.advance(86_400_000);
      expect(await verdict("claim", other)).toMatchObject({ state: "execute", stolen: false });
    });

    it("replays what was completed: status, headers and body, without cookies and connection headers", async () => {
      const { scope, lock } = await held();
      const body = base64(1000);
      const headers = {
        "Content-Type": "text/plain",
        "Set-Cookie": "a=1",
        Connection: "close, X-Hop",
        "x-hop": "1",
        "Transfer-Encoding": "chunked",
        "keep-alive": "timeout=5",
      };
      expect(await verdict("complete", { ...lock, status: 201, headers, body })).toEqual({
        object: "idempotency_record",
        outcome: "ok",
        body_stored: true,
      });
      expect(await verdict("claim", scope)).toMatchObject({
        state: "replay",
        lock_token: null,
        retry_after_ms: null,
        response: { status: 201, headers: { "Content-Type": "text/plain" }, body, body_stored: true },
      });
    });

    for (const [what, body, stored] of [
      ["a body of exactly the cap", base64(262_144), true],
      ["an empty body", "", true],
      ["a body one byte over the cap", base64(262_145), false],
      ["no body", null, false],
    ] as const) {
      it(`${stored ? "stores" : "does not store"} ${what}, and still replays`, async () => {
        const { scope, lock } = await held();
        expect(await verdict("complete", { ...lock, status: 200, headers: { a: "b" }, body })).toMatchObject({
          outcome: "ok",
          body_stored: stored,
        });
        const { body: replayed, ...response } = (await verdict("claim", scope)).response as { body: string | null };
        expect(response).toEqual({ status: 200, headers: { a: "b" }, body_stored: stored });
        expect(replayed === (stored ? body : null)).toBe(true);
      });
    }

    it("lets an expired lock be taken over once, and fences out the first holder", async () => {
      const { scope, lock } = await held();
      instance.clock.advance(30_000);
      const second = await verdict("claim", scope);
      expect(second).toMatchObject({ state: "execute", stolen: true });
      expect((await verdict("claim", scope)).state).toBe("in_progress");
      for (const verb of ["heartbeat", "release"]) expect((await verdict(verb, lock)).outcome).toBe("lock_lost");
      expect(await verdict("complete", { ...lock, status: 200, body: "" })).toMatchObject({
        outcome: "lock_lost",
        body_stored: false,
      });
      const own = { ...lock, lock_token: second.lock_token };
      expect(await verdict("complete", { ...own, status: 200, body: "YQ==" })).toMatchObject({ outcome: "ok" });
      for (const verb of ["heartbeat", "release"]) expect((await verdict(verb, lock)).outcome).toBe("completed");
      expect(await verdict("complete", { ...lock, status: 500 })).toMatchObject({
        outcome: "completed",
        body_stored: false,
      });
      expect((await verdict("claim", scope)).response).toMatchObject({ status: 200, body: "YQ==" });
    });

    it("accepts a completion after the lock expired if it was not taken over", async () => {
      const { scope, lock } = await held();
      instance.clock.advance(45_000);
      expect((await verdict("complete", { ...lock, status: 204 })).outcome).toBe("ok");
      expect((await verdict("claim", scope)).state).toBe("replay");
    });

    it("keeps the first response when complete is repeated with the same token", async () => {
      const { scope, lock } = await held();
      await verdict("complete", { ...lock, status: 200, body: "YQ==" });
      expect(await verdict("complete", { ...lock, status: 500, body: null })).toMatchObject({
        outcome: "ok",
        body_stored: true,
      });
      expect((await verdict("claim", scope)).response).toMatchObject({ status: 200, body: "YQ==" });
    });

    it("responds completed to heartbeat and release after completion, and changes nothing", async () => {
      const { scope, lock } = await held();
      await verdict("complete", { ...lock, status: 200 });
      expect(await verdict("heartbeat", lock)).toEqual({ object: "idempotency_record", outcome: "completed" });
      expect(await verdict("release", lock)).toEqual({ object: "idempotency_record", outcome: "completed" });
      expect((await verdict("claim", scope)).state).toBe("replay");
    });

    it("frees a released scope for the next claim, without reporting it as stolen", async () => {
      const { scope, lock } = await held();
      expect((await verdict("release", lock)).outcome).toBe("ok");
      expect((await verdict("release", lock)).outcome).toBe("not_found");
      expect(await verdict("claim", { ...scope, fingerprint: hex() })).toMatchObject({
        state: "execute",
        stolen: false,
      });
    });

    it("extends the lock to 30 s from a heartbeat", async () => {
      const { scope, lock } = await held();
      instance.clock.advance(20_000);
      expect((await verdict("heartbeat", lock)).outcome).toBe("ok");
      instance.clock.advance(20_000);
      expect(await verdict("claim", scope)).toMatchObject({ state: "in_progress", retry_after_ms: 10_000 });
    });

    it("never expires a record under a lock that is kept alive", async () => {
      const { scope, lock } = await held({ ...fresh(), ttl_ms: 60_000 } as ReturnType<typeof fresh>);
      for (let i = 0; i < 5; i++) {
        instance.clock.advance(20_000);
        expect((await verdict("heartbeat", lock)).outcome).toBe("ok");
      }
      expect((await verdict("claim", scope)).state).toBe("in_progress");
    });

    it("expires a record at its ttl, counted from the claim and again from complete", async () => {
      const { scope, lock } = await held({ ...fresh(), ttl_ms: 60_000 } as ReturnType<typeof fresh>);
      instance.clock.advance(25_000);
      await verdict("complete", { ...lock, status: 200, body: "YQ==" });
      instance.clock.advance(59_999);
      expect((await verdict("claim", scope)).state).toBe("replay");
      instance.clock.advance(1);
      expect(await verdict("claim", scope)).toMatchObject({ state: "execute", stolen: false });
      const { lock: late } = await held({ ...fresh(), ttl_ms: 60_000 } as ReturnType<typeof fresh>);
      instance.clock.advance(60_000);
      for (const verb of ["heartbeat", "release"]) expect((await verdict(verb, late)).outcome).toBe("not_found");
      expect((await verdict("complete", { ...late, status: 200 })).outcome).toBe("not_found");
    });

    it("lets complete set the ttl", async () => {
      const { scope, lock } = await held();
      await verdict("complete", { ...lock, status: 200, ttl_ms: 120_000 });
      instance.clock.advance(119_999);
      expect((await verdict("claim", scope)).state).toBe("replay");
      instance.clock.advance(1);
      expect((await verdict("claim", scope)).state).toBe("execute");
    });

    it("responds not_found where there is no record", async () => {
      const lock = { scope_hash: hex(), env: "live", lock_token: "nobody-has-this" };
      for (const verb of ["heartbeat", "release"]) expect((await verdict(verb, lock)).outcome).toBe("not_found");
      expect(await verdict("complete", { ...lock, status: 200, body: "YQ==" })).toMatchObject({
        outcome: "not_found",
        body_stored: false,
      });
    });

    it("isolates environments and workspaces", async () => {
      const { scope } = await held();
      expect((await verdict("claim", { ...scope, env: "test" })).state).toBe("execute");
      const other = await instance.workspace();
      const answer = await other.call("sk_owner", "POST /v1/idempotency/claim", scope);
      expect(answer.body.state).toBe("execute");
    });

    it("refuses a test key that names the live environment, and serves it in test", async () => {
      const scope = fresh();
      expectRefusal(await call("claim", scope, "sk_test"), 403, "forbidden");
      const lock = { scope_hash: scope.scope_hash, env: "live", lock_token: "12345678" };
      expectRefusal(await call("complete", { ...lock, status: 200 }, "sk_test"), 403, "forbidden");
      expectRefusal(await call("release", lock, "sk_test"), 403, "forbidden");
      expectRefusal(await call("heartbeat", lock, "sk_test"), 403, "forbidden");
      expect((await call("claim", { ...scope, env: "test" }, "sk_test")).body.state).toBe("execute");
    });

    const scope_hash = hex();
    const lock = { scope_hash, env: "live", lock_token: "x".repeat(32) };
    for (const [why, verb, body, path] of [
      ["a short scope hash", "claim", { ...fresh(), scope_hash: "ab" }, "scope_hash"],
      ["a ttl under a minute", "claim", { ...fresh(), ttl_ms: 59_999 }, "ttl_ms"],
      ["a ttl over a week", "claim", { ...fresh(), ttl_ms: 604_800_001 }, "ttl_ms"],
      ["an unknown field", "claim", { ...fresh(), extra: 1 }, "extra"],
      ["a token of 7", "release", { ...lock, lock_token: "x".repeat(7) }, "lock_token"],
      ["a token of 65", "heartbeat", { ...lock, lock_token: "x".repeat(65) }, "lock_token"],
      ["status 99", "complete", { ...lock, status: 99 }, "status"],
      ["unpadded base64", "complete", { ...lock, status: 200, body: "YQ" }, "body"],
      ["url-safe base64", "complete", { ...lock, status: 200, body: "_-8=" }, "body"],
      ["base64 with spare bits", "complete", { ...lock, status: 200, body: "YR==" }, "body"],
      ["base64 with a line break", "complete", { ...lock, status: 200, body: "YQ==\n" }, "body"],
      ["base64 over its cap", "complete", { ...lock, status: 200, body: "A".repeat(6_291_460) }, "body"],
      ["a header value of two lines", "complete", { ...lock, status: 200, headers: { a: "b\r\nc: d" } }, "headers.a"],
      ["a long header value", "complete", { ...lock, status: 200, headers: { a: "b".repeat(4097) } }, "headers.a"],
      [
        "65 headers",
        "complete",
        { ...lock, status: 200, headers: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`h${i}`, ""])) },
        "headers",
      ],
    ] as const) {
      it(`refuses ${why}`, async () => {
        expectRefusal(await call(verb, body), 400, "invalid_request", path);
      });
    }

    it("writes no audit row", async () => {
      await held();
      expect(await workspace.actions()).toEqual([]);
    });
  });
}
