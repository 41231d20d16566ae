// The policy feed over HTTP: what a node may rely on, rule by rule (decisions 112-123, 184, 185).
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { request } from "node:http";
import { hash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { reapDeltaLog, reapSilentNodes } from "../../src/domain/retention.ts";
import { PolicyDelta, PolicySnapshot } from "../../src/planes/machine/policy-shapes.ts";
import { backends } from "../support/backends.ts";
import { expectRefusal, rack, type Reply, type TestRack, type Workspace } from "../support/rack.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const FOREIGN = "01890a5d-ac96-774b-bcce-b302099a8057";
const RULE = { id: "minute", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" };

type Body = Record<string, unknown>;
type Entry = { key_id: string; change?: string } & Body;

for (const back of backends) {
  describe(`the policy feed on ${back}`, () => {
    let r: TestRack;
    let w: Workspace;
    beforeAll(async () => {
      r = await rack(back, { flags: { snapshot_max_keys: "4" } });
    });
    afterAll(() => r[Symbol.asyncDispose]());
    beforeEach(async () => {
      w = await r.workspace();
    });

    const snapshot = (more = "", headers: Record<string, string> = {}): Promise<Reply> =>
      w.call("sk_owner", `GET /v1/policy/snapshot?project_id=${w.project_id}${more}`, undefined, { headers });
    const delta = (since: number, more = "", headers: Record<string, string> = {}): Promise<Reply> =>
      w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=${since}${more}`, undefined, {
        headers,
      });
    const version = async (): Promise<number> =>
      (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body.policy_version as number;
    const ids = (reply: Reply): string[] =>
      ((reply.body.keys ?? reply.body.changes) as Entry[]).map(({ key_id }) => key_id);
    const revoke = (id: string, more = ""): Promise<Reply> =>
      w.call("sk_owner", `POST /v1/keys/${id}/revoke${more}`, {});
    const nodes = (): Promise<Body[]> =>
      r.app.rack.nodes.settled().then(() => r.sql("select * from policy_nodes where project_id = $1", [w.project_id]));

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
      const many = Array.from({ length: 51 }, () => `&tenant_id=${r.app.rack.newId()}`).join("");
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
      await reapDeltaLog(r.app.rack);
      expect(await log()).toBe(3);
      await r.sql("update projects set policy_version = $1, name = 'far' where id = $2", [at + 9_998, w.project_id]);
      await reapDeltaLog(r.app.rack);
      expect(await log()).toBe(2);
      r.clock.advance(7 * DAY_MS + 1);
      await reapDeltaLog(r.app.rack);
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

    describe("a waiting poll", () => {
      const waits = async (n: number): Promise<void> => {
        while (r.app.rack.feed.waiting !== n) await new Promise((resolve) => setImmediate(resolve));
      };

      it("is answered when the version moves, with what moved", async () => {
        const key = await w.mint();
        const at = await version();
        const poll = delta(at, "&wait_ms=25000");
        await waits(1);
        await revoke(key.id);
        const { status, body } = await poll;
        expect([status, body.changes[0].change, body.version]).toEqual([200, "remove", at + 1]);
        expect(r.app.rack.feed.waiting).toBe(0);
      });

      it("is answered at once when there is something newer, and with 304 when the time is up", async () => {
        await w.mint();
        const at = await version();
        expect((await delta(at - 1, "&wait_ms=25000")).status).toBe(200);
        expect((await delta(at, "&wait_ms=20")).status).toBe(304);
        expect(r.app.rack.feed.waiting).toBe(0);
      });

      it("does not wait when it says that its node leaves", async () => {
        using join = vi.spyOn(r.app.rack.feed, "join");
        const at = await version();
        expect((await delta(at, "&wait_ms=1000&node=n&leaving=true")).status).toBe(304);
        expect(join).not.toHaveBeenCalled();
        await delta(at, "&wait_ms=1");
        expect(join).toHaveBeenCalledOnce();
      });

      it("is not woken by another project", async () => {
        const other = await r.workspace();
        const at = await version();
        const poll = delta(at, "&wait_ms=60");
        await waits(1);
        await other.mint();
        expect((await poll).status).toBe(304);
      });

      it("frees its place when the caller goes away", async () => {
        const leaving = new AbortController();
        const url = `${r.url}/v1/policy/delta?project_id=${w.project_id}&since=${await version()}&wait_ms=25000`;
        const poll = fetch(url, { headers: { authorization: `Bearer ${w.keys.sk_owner}` }, signal: leaving.signal });
        poll.catch(() => {});
        await waits(1);
        leaving.abort();
        await waits(0);
        await expect(poll).rejects.toThrow("aborted");
      });
    });

    describe("nodes", () => {
      it("are registered by their polls, and a poll that says nothing new writes nothing", async () => {
        await w.mint();
        const at = await version();
        await delta(at, "&node=n1");
        const row = { node_id: "n1", env_scope: "all", version: at, last_seen_at: r.clock.now() };
        expect(await nodes()).toEqual([expect.objectContaining(row)]);
        r.clock.advance(29_999);
        await delta(at, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining(row)]);
        r.clock.advance(1);
        await delta(at, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ ...row, last_seen_at: r.clock.now() })]);
        await w.mint();
        await delta(at + 1, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ version: at + 1 })]);
        expect(await w.actions()).toEqual(["api_key.created", "api_key.created"]);
      });

      it("have a row for each environment scope, and none without a name or ahead of the server", async () => {
        const at = await version();
        await delta(at);
        await delta(at + 5, "&node=ahead");
        expect(await nodes()).toEqual([]);
        await delta(at, "&node=n&env=live");
        await delta(at, "&node=n&env=test");
        await delta(at, "&node=n");
        expect((await nodes()).map(({ env_scope }) => String(env_scope)).toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
          "all",
          "live",
          "test",
        ]);
      });

      it("are known from their first snapshot, as having acknowledged nothing", async () => {
        await w.mint();
        await snapshot("&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ node_id: "n1", version: 0 })]);
      });

      it("leave when they say so, and are forgotten after a day of silence", async () => {
        const at = await version();
        await delta(at, "&node=a");
        await delta(at, "&node=b");
        await delta(at, "&node=a&leaving=true&wait_ms=25000");
        expect((await nodes()).map(({ node_id }) => node_id)).toEqual(["b"]);
        r.clock.advance(DAY_MS);
        await reapSilentNodes(r.app.rack);
        expect(await nodes()).toHaveLength(1);
        r.clock.advance(1);
        await reapSilentNodes(r.app.rack);
        expect(await nodes()).toEqual([]);
      });

      it("are at most a thousand a project: forged names only push out the least recently seen", async () => {
        const at = await version();
        const head = { ...(await r.app.rack.feed.head(w.id, w.project_id)) };
        for (let i = 0; i < 1_005; i++) {
          r.clock.advance(1);
          r.app.rack.nodes.acknowledge(head, `forged-${i}`, "all", at);
        }
        const rows = await nodes();
        expect(rows).toHaveLength(1_000);
        const names = new Set(rows.map(({ node_id }) => node_id));
        expect([names.has("forged-4"), names.has("forged-5"), names.has("forged-1004")]).toEqual([false, true, true]);
      });
    });

    describe("revoke?wait=true", () => {
      it("answers at once when nobody holds policy", async () => {
        const key = await w.mint();
        const { body } = await revoke(key.id, "?wait=true");
        expect(body.propagation).toEqual({
          version: await version(),
          complete: true,
          waited_ms: 0,
          acked_nodes: 0,
          total_nodes: 0,
          nodes: [],
        });
      });

      it("answers when the last live node of that environment has acknowledged", async () => {
        const key = await w.mint();
        const at = await version();
        await delta(at, "&node=all");
        await delta(at, "&node=live&env=live");
        await delta(at, "&node=test&env=test");
        await nodes();
        const answer = revoke(key.id, "?wait=true");
        const polls = ["&node=all", "&node=live&env=live"].map(async (more) => {
          const seen = await delta(at, `${more}&wait_ms=25000`);
          await delta(seen.body.version as number, more);
        });
        const { propagation } = (await answer).body;
        await Promise.all(polls);
        expect(propagation).toMatchObject({ version: at + 1, complete: true, acked_nodes: 2, total_nodes: 2 });
        expect(propagation.nodes.map((node: Body) => [node.node_id, node.env_scope, node.acked])).toEqual([
          ["all", "all", true],
          ["live", "live", true],
        ]);
      });

      it("does not wait for nodes that are not live, and reports on a key that was revoked before", async () => {
        const key = await w.mint();
        await delta(await version(), "&node=gone");
        await nodes();
        r.clock.advance(120_000);
        const first = await revoke(key.id, "?wait=true");
        expect(first.body.propagation).toMatchObject({ complete: true, total_nodes: 0 });
        const before = await w.actions();
        const again = await revoke(key.id, "?wait=true");
        expect(again.body.propagation).toEqual(first.body.propagation);
        expect(await w.actions()).toEqual(before);
      });
    });
  });

  describe(`an impatient service on ${back}`, () => {
    it("says complete: false when a live node stays silent", async () => {
      await using r = await rack(back, { flags: { revoke_wait_ms: "50" } });
      const w = await r.workspace();
      const key = await w.mint();
      await w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=2&node=silent`);
      await r.app.rack.nodes.settled();
      const { body } = await w.call("sk_owner", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
      expect(body.propagation).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1, version: 3 });
      expect(body.revoked_at).not.toBeNull();
    });

    it("answers a waiting poll when it stops, and lets nobody wait any more", async () => {
      const r = await rack(back);
      const w = await r.workspace();
      const poll = w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=1&wait_ms=25000`);
      while (r.app.rack.feed.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
      const disposed = r[Symbol.asyncDispose]();
      expect((await poll).status).toBe(304);
      expect(r.app.rack.feed.join(w.project_id, 1_000, () => () => {})).toBeUndefined();
      await disposed;
    });
  });
}
