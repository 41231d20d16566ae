// How far back the policy feed reaches: the delta log, its limits, and what snapshots omit.
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { request } from "node:http";
import { beforeEach, describe, expect, it } from "vitest";
import { reapDeltaLog } from "../../../src/domain/policy/retention.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { policyFeed, type Body } from "../../../harness/instances/policy-feed.ts";
import { expectRefusal, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const RULE = { id: "minute", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" };

for (const backend of runBackends) {
  describe(`the history of the policy feed on ${backend}`, () => {
    const { now, snapshot, delta, version, ids, revoke, nodes } = policyFeed(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    beforeEach(() => {
      ({ instance, workspace } = now());
    });

    it("responds to a delta with a snapshot when the changes are no longer known", async () => {
      for (let i = 0; i < 3; i++) await workspace.mint();
      const at = await version();
      const object = async (since: number): Promise<string> => (await delta(since)).body.object as string;
      expect(await object(at - 1)).toBe("policy_delta");
      expect(await object(0)).toBe("policy_snapshot");
      expect(await object(at + 1)).toBe("policy_snapshot");
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { default_rate_limits: [RULE] });
      expect(await object(at)).toBe("policy_snapshot");
      await workspace.mint();
      expect(await object(at)).toBe("policy_snapshot");
      expect(await object(at + 1)).toBe("policy_delta");
      instance.clock.advance(7 * DAY_MS);
      expect(await object(at + 1)).toBe("policy_delta");
      instance.clock.advance(1);
      expect(await object(at + 1)).toBe("policy_snapshot");
    });

    it("sends changes over up to ten thousand versions, and a snapshot beyond that", async () => {
      for (let i = 0; i < 3; i++) await workspace.mint();
      const at = await version();
      await instance.sql("update projects set policy_version = $1 where id = $2", [at + 9_998, workspace.project_id]);
      await workspace.mint();
      expect(await version()).toBe(at + 9_999);
      expect((await delta(at - 1)).body.object).toBe("policy_delta");
      expect((await delta(at - 2)).body.object).toBe("policy_snapshot");
    });

    it("keeps the delta log for seven days and ten thousand versions", async () => {
      for (let i = 0; i < 3; i++) await workspace.mint();
      const at = await version();
      const log = async (): Promise<number> =>
        Number(
          (
            await instance.sql("select count(*) as n from policy_versions where project_id = $1", [
              workspace.project_id,
            ])
          )[0]?.n,
        );
      await reapDeltaLog(instance.app.services);
      expect(await log()).toBe(3);
      await instance.sql("update projects set policy_version = $1, name = 'far' where id = $2", [
        at + 9_998,
        workspace.project_id,
      ]);
      await reapDeltaLog(instance.app.services);
      expect(await log()).toBe(2);
      instance.clock.advance(7 * DAY_MS + 1);
      await reapDeltaLog(instance.app.services);
      expect(await log()).toBe(0);
    });

    it("cuts a long delta between versions, never inside one", async () => {
      const made: string[] = [];
      for (let i = 0; i < 4; i++) made.push((await workspace.mint()).id);
      const at = await version();
      const first = await delta(at - 4, "&max_keys=3");
      expect([first.body.version, ids(first)]).toEqual([at - 1, made.slice(0, 3)]);
      expect(first.headers.get("etag")).toContain(`:${at - 1}"`);
      expect(ids(await delta(first.body.version, "&max_keys=3"))).toEqual([made[3]]);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`); // four removals in one version
      const whole = await delta(at, "&max_keys=1");
      expect([whole.body.object, whole.body.version, ids(whole).length]).toEqual(["policy_delta", at + 1, 4]);
      expect((whole.body.changes as Body[]).map(({ reason }) => reason)).toEqual(Array(4).fill("tenant_deleted"));
      const next = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "next" })).body.id as string;
      for (let i = 0; i < 5; i++) await workspace.mint({ tenant_id: next });
      const many = await version();
      await workspace.call("sk_owner", `DELETE /v1/tenants/${next}`); // five in one version: above the ceiling of four
      const big = await delta(many, "&max_keys=1");
      expect([big.body.object, big.body.version, ids(big)]).toEqual(["policy_snapshot", many + 1, []]);
    });

    it("takes no acknowledgement from a node that holds a version in part", async () => {
      const [twice, once] = [await workspace.mint(), await workspace.mint()];
      const at = await version();
      await workspace.call("sk_owner", `POST /v1/keys/${twice.id}/disable`, {});
      await workspace.call("sk_owner", `PATCH /v1/keys/${once.id}`, { name: "once", scopes: ["read"] });
      await revoke(twice.id);
      const acknowledged = async (): Promise<unknown> => (await nodes())[0]?.version;
      const first = await delta(at, "&node=n&max_keys=1");
      expect([first.body.version, ids(first)]).toEqual([at + 2, [once.id]]); // without the key that was disabled before
      const sent = { "if-none-match": first.headers.get("etag") ?? "" };
      const last = await delta(at + 2, "&node=n&max_keys=1", sent);
      expect(ids(last)).toEqual([twice.id]);
      expect(await acknowledged()).toBe(at);
      await delta(at + 3, "&node=n", { "if-none-match": last.headers.get("etag") ?? "" });
      expect(await acknowledged()).toBe(at + 3);
    });

    it("omits revoked keys and keys expired for over a day, also from a cached page", async () => {
      const soon = new Date(instance.clock.now() + HOUR_MS).toISOString();
      const [gone, expiring, lasting] = [
        await workspace.mint(),
        await workspace.mint({ expires_at: soon }),
        await workspace.mint(),
      ];
      await revoke(gone.id);
      expect(ids(await snapshot())).toEqual([expiring.id, lasting.id]);
      const before = await version();
      instance.clock.advance(25 * HOUR_MS);
      expect(ids(await snapshot())).toEqual([expiring.id, lasting.id]);
      instance.clock.advance(1);
      expect(ids(await snapshot())).toEqual([lasting.id]);
      expect(await version()).toBe(before);
      expect((await delta(before)).status).toBe(304);
    });

    it("serves a deleted project forever, with no keys", async () => {
      await workspace.mint();
      const before = await version();
      await workspace.call("sk_owner", `DELETE /v1/projects/${workspace.project_id}`);
      for (const reply of [await snapshot(), await delta(before), await delta(0)]) {
        expect(reply.body).toMatchObject({
          object: "policy_snapshot",
          project_deleted: true,
          keys: [],
          version: before + 1,
        });
      }
      expect((await delta(before + 1)).status).toBe(304);
    });

    it("sends zstd or gzip on request, with the same content", async () => {
      for (let i = 0; i < 4; i++)
        await workspace.mint({ scopes: Array.from({ length: 20 }, (_none, n) => `scope-${n}:${i}`) });
      const raw = (encoding: string): Promise<{ encoding: string | undefined; bytes: Buffer }> =>
        new Promise((resolve, reject) => {
          const headers = { authorization: `Bearer ${workspace.keys.sk_owner}`, "accept-encoding": encoding };
          request(`${instance.url}/v1/policy/snapshot?project_id=${workspace.project_id}`, { headers }, (res) => {
            const parts: Buffer[] = [];
            res.on("data", (part: Buffer) => parts.push(part));
            res.on("end", () => resolve({ encoding: res.headers["content-encoding"], bytes: Buffer.concat(parts) }));
          })
            .on("error", reject)
            .end();
        });
      const plain = await raw("identity");
      expect(plain.encoding).toBeUndefined();
      const zstd = await raw("gzip, deflate, br, zstd");
      expect([zstd.encoding, zstdDecompressSync(zstd.bytes).equals(plain.bytes)]).toEqual(["zstd", true]);
      const gzip = await raw("gzip, zstd;q=0");
      expect([gzip.encoding, gunzipSync(gzip.bytes).equals(plain.bytes)]).toEqual(["gzip", true]);
      expect((await raw("br")).encoding).toBeUndefined();
    });

    it("rejects invalid queries", async () => {
      for (const [more, path] of [
        ["&wait_ms=25001", "wait_ms"],
        ["&wait_ms=-1", "wait_ms"],
        ["&max_keys=0", "max_keys"],
        ["&node=a%20b", "node"],
        ["&env=prod", "env"],
        ["&leaving=1", "leaving"],
        ["&cursor=x", "cursor"],
        ["&since=2", "since"],
      ] as const) {
        expectRefusal(await delta(1, more), 400, "invalid_request", path);
      }
      expectRefusal(await delta(-1), 400, "invalid_request", "since");
      const post = await workspace.call("sk_owner", "POST /v1/policy/delta", {});
      expectRefusal(post, 405, "method_not_allowed");
      expect(post.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
      const head = await workspace.call("sk_owner", `HEAD /v1/policy/delta?project_id=${workspace.project_id}&since=0`);
      expect([head.status, head.text, head.headers.get("etag")]).toEqual([
        200,
        "",
        `W/"snap:${workspace.project_id}:all:all:1"`,
      ]);
    });
  });
}
