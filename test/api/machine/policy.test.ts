// The policy feed over HTTP: what a node may rely on, rule by rule (decisions 112-123, 184, 185).
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { request } from "node:http";
import { hash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { reapDeltaLog } from "../../../src/domain/policy/retention.ts";
import { PolicyDelta, PolicySnapshot } from "../../../src/api/machine/policy-schemas.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { policyFeed, type Body } from "../../../harness/instances/policy-feed.ts";
import { expectRefusal, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const FOREIGN = "01890a5d-ac96-774b-bcce-b302099a8057";
const RULE = { id: "minute", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" };

for (const back of backends) {
  describe(`the policy feed on ${back}`, () => {
    const { now, snapshot, delta, version, ids, revoke } = policyFeed(back);
    let r: TestInstance;
    let w: Workspace;
    beforeEach(() => {
      ({ r, w } = now());
    });

    it("tells every field of a key, and rules resolved against the project's own", async () => {
      const own = await w.mint({
        scopes: ["a:b", 'qu"ote', "ü"],
        rate_limits: [RULE],
        expires_at: "2099-02-03T04:05:06.007Z",
      });
      const inherits = await w.mint();
      const other = { ...RULE, id: "hour" };
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { default_rate_limits: [other] });
      const { status, body, headers } = await snapshot();
      expect(status).toBe(200);
      expect(PolicySnapshot.parse(body)).toEqual(body);
      expect(body).toMatchObject({
        workspace_id: w.id,
        env: null,
        version: 4,
        project_deleted: false,
        next_cursor: null,
      });
      expect(body.keys).toEqual([
        {
          key_id: own.id,
          tenant_id: w.tenant_id,
          env: "live",
          lookup_hash: hash("sha256", own.key),
          display_prefix: own.display_prefix,
          scopes: ["a:b", 'qu"ote', "ü"],
          expires_at: "2099-02-03T04:05:06.007Z",
          rate_limits: [RULE],
        },
        expect.objectContaining({ key_id: inherits.id, rate_limits: [other], expires_at: null, scopes: [] }),
      ]);
      expect(headers.get("etag")).toBe(`W/"snap:${w.project_id}:all:all:4"`);
      expect(headers.get("cache-control")).toBe("private, no-cache");
      expect(headers.get("vary")).toBe("accept-encoding");
      expect(await w.actions()).not.toContain("policy.read");
    });

    it("answers what changed since a version, the latest word on each key, in order", async () => {
      const [a, b] = [await w.mint(), await w.mint()];
      const from = await version();
      await w.call("sk_owner", `PATCH /v1/keys/${a.id}`, { scopes: ["x"] });
      await revoke(b.id);
      await w.call("sk_owner", `PATCH /v1/keys/${a.id}`, { scopes: ["y"] });
      const { status, body, headers } = await delta(from);
      expect(status).toBe(200);
      expect(PolicyDelta.parse(body)).toEqual(body);
      expect(body).toMatchObject({ object: "policy_delta", since: from, version: from + 3, project_deleted: false });
      expect(body.changes).toEqual([
        {
          change: "remove",
          key_id: b.id,
          tenant_id: w.tenant_id,
          env: "live",
          lookup_hash: hash("sha256", b.key),
          display_prefix: b.display_prefix,
          reason: "revoked",
        },
        expect.objectContaining({ change: "upsert", key_id: a.id, scopes: ["y"] }),
      ]);
      expect(headers.get("etag")).toBe(`W/"delta:${w.project_id}:all:all:${from + 3}"`);
    });

    it("says with 304 and no body that nothing changed, to since and to If-None-Match on both", async () => {
      await w.mint();
      const now = await version();
      const same = await delta(now);
      expect([same.status, same.text]).toEqual([304, ""]);
      const etag = same.headers.get("etag") ?? "";
      expect(etag).toBe(`W/"delta:${w.project_id}:all:all:${now}"`);
      expect(same.headers.get("cache-control")).toBe("private, no-cache");
      const whole = (await snapshot()).headers.get("etag") ?? "";
      for (const tag of [whole, whole.replace("W/", ""), `"x", ${whole}`, "*"]) {
        expect((await snapshot("", { "if-none-match": tag })).status).toBe(304);
      }
      expect((await snapshot("", { "if-none-match": etag })).status).toBe(200);
      const [changed] = [await delta(now - 1)];
      expect((await delta(now - 1, "", { "if-none-match": changed.headers.get("etag") ?? "" })).status).toBe(304);
      await w.mint();
      expect((await snapshot("", { "if-none-match": whole })).status).toBe(200);
      expect((await delta(now, "", { "if-none-match": etag })).status).toBe(200);
    });

    it("narrows by environment and tenants, env first in the tag, tenants as a digest of the sorted ids", async () => {
      const second = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "second" })).body.id as string;
      const live = await w.mint();
      const test = await w.mint({ env: "test" });
      const theirs = await w.mint({ tenant_id: second });
      expect(ids(await snapshot("&env=live"))).toEqual([live.id, theirs.id]);
      expect(ids(await snapshot("&env=test"))).toEqual([test.id]);
      expect(ids(await snapshot(`&tenant_id=${second}`))).toEqual([theirs.id]);
      expect(ids(await snapshot(`&tenant_id=${FOREIGN}`))).toEqual([]);
      const both = await snapshot(`&env=live&tenant_id=${second}&tenant_id=${w.tenant_id}`);
      expect(ids(both)).toEqual([live.id, theirs.id]);
      const digest = hash("sha256", [second, w.tenant_id].toSorted().join(",")).slice(0, 16);
      expect(both.headers.get("etag")).toBe(`W/"snap:${w.project_id}:live:t-${digest}:${await version()}"`);
      const quiet = await delta((await version()) - 1, "&env=test");
      expect(quiet.body).toMatchObject({ env: "test", changes: [], version: await version() });
      const many = Array.from({ length: 51 }, () => `&tenant_id=${r.app.services.newId()}`).join("");
      expectRefusal(await snapshot(many), 400, "invalid_request", "tenant_id");
    });

    it("confines a test key to the test environment", async () => {
      await w.mint();
      const test = await w.mint({ env: "test" });
      const path = `/v1/policy/snapshot?project_id=${w.project_id}`;
      const seen = await w.call("sk_test", `GET ${path}`);
      expect([seen.body.env, ids(seen)]).toEqual(["test", [test.id]]);
      expectRefusal(await w.call("sk_test", `GET ${path}&env=live`), 403, "forbidden");
    });

    it("hides another workspace's project behind the same 404 as an unknown one", async () => {
      await snapshot();
      const stranger = await r.workspace();
      for (const id of [w.project_id, FOREIGN]) {
        expectRefusal(await stranger.call("sk_owner", `GET /v1/policy/snapshot?project_id=${id}`), 404, "not_found");
        expectRefusal(
          await stranger.call("sk_owner", `GET /v1/policy/delta?project_id=${id}&since=1`),
          404,
          "not_found",
        );
      }
    });

    it("pages by cursor at the first page's version, and refuses a whole snapshot above the ceiling", async () => {
      const made: string[] = [];
      for (let i = 0; i < 6; i++) made.push((await w.mint()).id);
      const before = await version();
      expectRefusal(await snapshot(), 413, "snapshot_too_large");
      expectRefusal(await delta(0), 413, "snapshot_too_large");
      const first = await snapshot("&max_keys=99"); // clamped to the ceiling of four
      expect(ids(first)).toEqual(made.slice(0, 4));
      await w.mint();
      const second = await snapshot(`&max_keys=1&cursor=${first.body.next_cursor}`);
      expect([second.body.version, ids(second)]).toEqual([before, [made[4]]]);
      const rest = await snapshot(`&cursor=${second.body.next_cursor}`);
      expect([rest.body.version, ids(rest).length, rest.body.next_cursor]).toEqual([before, 2, null]);
      expect(ids(await delta(before))).toHaveLength(1);
      const viaDelta = await delta(0, "&max_keys=4");
      expect([viaDelta.body.object, ids(viaDelta).length]).toEqual(["policy_snapshot", 4]);
      expect(ids(await snapshot(`&max_keys=4&cursor=${viaDelta.body.next_cursor}`))).toHaveLength(3);
    });

    it("refuses a cursor that is bad, foreign, of another filter or too old, naming it", async () => {
      for (let i = 0; i < 3; i++) await w.mint();
      const cursor = (await snapshot("&max_keys=1")).body.next_cursor as string;
      const other = (await w.call("sk_owner", "POST /v1/projects", { name: "B", slug: "other" })).body.id as string;
      const flipped = `${cursor.slice(0, 9)}${cursor[9] === "A" ? "B" : "A"}${cursor.slice(10)}`;
      for (const bad of ["x", "A".repeat(512), flipped, `${cursor}AA`, cursor.slice(0, -2)]) {
        expectRefusal(await snapshot(`&cursor=${bad}`), 400, "invalid_request", "cursor");
      }
      expectRefusal(await snapshot(`&cursor=${"A".repeat(513)}`), 400, "invalid_request", "cursor");
      expectRefusal(await snapshot(`&env=live&cursor=${cursor}`), 400, "invalid_request", "cursor");
      expectRefusal(await snapshot(`&tenant_id=${w.tenant_id}&cursor=${cursor}`), 400, "invalid_request", "cursor");
      const elsewhere = await w.call("sk_owner", `GET /v1/policy/snapshot?project_id=${other}&cursor=${cursor}`);
      expectRefusal(elsewhere, 400, "invalid_request", "cursor");
      r.clock.advance(7 * DAY_MS);
      expect((await snapshot(`&cursor=${cursor}`)).status).toBe(200);
      r.clock.advance(1);
      expectRefusal(await snapshot(`&cursor=${cursor}`), 400, "invalid_request", "cursor");
      // The page that held it is made afresh, so a node that starts again gets on.
      const again = (await snapshot("&max_keys=1")).body.next_cursor as string;
      expect((await snapshot(`&cursor=${again}`)).status).toBe(200);
    });

    it("answers a delta with a whole snapshot when it cannot tell the way", async () => {
      for (let i = 0; i < 3; i++) await w.mint();
      const at = await version();
      const object = async (since: number): Promise<string> => (await delta(since)).body.object as string;
      expect(await object(at - 1)).toBe("policy_delta");
      expect(await object(0)).toBe("policy_snapshot");
      expect(await object(at + 1)).toBe("policy_snapshot");
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { default_rate_limits: [RULE] });
      expect(await object(at)).toBe("policy_snapshot");
      await w.mint();
      expect(await object(at)).toBe("policy_snapshot");
      expect(await object(at + 1)).toBe("policy_delta");
      r.clock.advance(7 * DAY_MS);
      expect(await object(at + 1)).toBe("policy_delta");
      r.clock.advance(1);
      expect(await object(at + 1)).toBe("policy_snapshot");
    });

    it("tells what changed over ten thousand versions, and the whole policy beyond that", async () => {
      for (let i = 0; i < 3; i++) await w.mint();
      const at = await version();
      await r.sql("update projects set policy_version = $1 where id = $2", [at + 9_998, w.project_id]);
      await w.mint();
      expect(await version()).toBe(at + 9_999);
      expect((await delta(at - 1)).body.object).toBe("policy_delta");
      expect((await delta(at - 2)).body.object).toBe("policy_snapshot");
    });

    it("keeps the delta log for seven days and ten thousand versions", async () => {
      for (let i = 0; i < 3; i++) await w.mint();
      const at = await version();
      const log = async (): Promise<number> =>
        Number((await r.sql("select count(*) as n from policy_versions where project_id = $1", [w.project_id]))[0]?.n);
      await reapDeltaLog(r.app.services);
      expect(await log()).toBe(3);
      await r.sql("update projects set policy_version = $1, name = 'far' where id = $2", [at + 9_998, w.project_id]);
      await reapDeltaLog(r.app.services);
      expect(await log()).toBe(2);
      r.clock.advance(7 * DAY_MS + 1);
      await reapDeltaLog(r.app.services);
      expect(await log()).toBe(0);
    });

    it("cuts a long delta between versions, and tells one large version whole or as a snapshot", async () => {
      const made: string[] = [];
      for (let i = 0; i < 4; i++) made.push((await w.mint()).id);
      const at = await version();
      const first = await delta(at - 4, "&max_keys=3");
      expect([first.body.version, ids(first)]).toEqual([at - 1, made.slice(0, 3)]);
      expect(first.headers.get("etag")).toContain(`:${at - 1}"`);
      expect(ids(await delta(first.body.version, "&max_keys=3"))).toEqual([made[3]]);
      await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`); // four removals in one version
      const whole = await delta(at, "&max_keys=1");
      expect([whole.body.object, whole.body.version, ids(whole).length]).toEqual(["policy_delta", at + 1, 4]);
      expect((whole.body.changes as Body[]).map(({ reason }) => reason)).toEqual(Array(4).fill("tenant_deleted"));
      const next = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "next" })).body.id as string;
      for (let i = 0; i < 5; i++) await w.mint({ tenant_id: next });
      const many = await version();
      await w.call("sk_owner", `DELETE /v1/tenants/${next}`); // five in one version: above the ceiling of four
      const big = await delta(many, "&max_keys=1");
      expect([big.body.object, big.body.version, ids(big)]).toEqual(["policy_snapshot", many + 1, []]);
    });

    it("leaves out revoked keys and those expired for more than a day, though their page was kept", async () => {
      const soon = new Date(r.clock.now() + HOUR_MS).toISOString();
      const [gone, expiring, lasting] = [await w.mint(), await w.mint({ expires_at: soon }), await w.mint()];
      await revoke(gone.id);
      expect(ids(await snapshot())).toEqual([expiring.id, lasting.id]);
      const before = await version();
      r.clock.advance(25 * HOUR_MS);
      expect(ids(await snapshot())).toEqual([expiring.id, lasting.id]);
      r.clock.advance(1);
      expect(ids(await snapshot())).toEqual([lasting.id]);
      expect(await version()).toBe(before);
      expect((await delta(before)).status).toBe(304);
    });

    it("tells of a deleted project for ever, with no keys", async () => {
      await w.mint();
      const before = await version();
      await w.call("sk_owner", `DELETE /v1/projects/${w.project_id}`);
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

    it("sends zstd or gzip to who asks for it, the same bytes within", async () => {
      for (let i = 0; i < 4; i++) await w.mint({ scopes: Array.from({ length: 20 }, (_none, n) => `scope-${n}:${i}`) });
      const raw = (encoding: string): Promise<{ encoding: string | undefined; bytes: Buffer }> =>
        new Promise((resolve, reject) => {
          const headers = { authorization: `Bearer ${w.keys.sk_owner}`, "accept-encoding": encoding };
          request(`${r.url}/v1/policy/snapshot?project_id=${w.project_id}`, { headers }, (res) => {
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

    it("refuses what is not a query of the feed", async () => {
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
      const post = await w.call("sk_owner", "POST /v1/policy/delta", {});
      expectRefusal(post, 405, "method_not_allowed");
      expect(post.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
      const head = await w.call("sk_owner", `HEAD /v1/policy/delta?project_id=${w.project_id}&since=0`);
      expect([head.status, head.text, head.headers.get("etag")]).toEqual([
        200,
        "",
        `W/"snap:${w.project_id}:all:all:1"`,
      ]);
    });
  });
}
