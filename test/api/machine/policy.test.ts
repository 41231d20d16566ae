// The policy feed over HTTP: what a node may rely on (docs/design/0004-policy-feed-and-versions.md).
import { hash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { PolicyDelta, PolicySnapshot } from "../../../src/api/machine/policy-schemas.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { policyFeed } from "../../../harness/instances/policy-feed.ts";
import { expectRefusal, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const FOREIGN = "01890a5d-ac96-774b-bcce-b302099a8057";
const RULE = { id: "minute", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" };

for (const backend of runBackends) {
  describe(`the policy feed on ${backend}`, () => {
    const { now, snapshot, delta, version, ids, revoke } = policyFeed(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    beforeEach(() => {
      ({ instance, workspace } = now());
    });

    it("sends every field of a key, with limits resolved against the project's defaults", async () => {
      const own = await workspace.mint({
        scopes: ["a:b", 'qu"ote', "ü"],
        rate_limits: [RULE],
        expires_at: "2099-02-03T04:05:06.007Z",
      });
      const inherits = await workspace.mint();
      const other = { ...RULE, id: "hour" };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { default_rate_limits: [other] });
      const { status, body, headers } = await snapshot();
      expect(status).toBe(200);
      expect(PolicySnapshot.parse(body)).toEqual(body);
      expect(body).toMatchObject({
        workspace_id: workspace.id,
        env: null,
        version: 4,
        project_deleted: false,
        next_cursor: null,
      });
      expect(body.keys).toEqual([
        {
          key_id: own.id,
          tenant_id: workspace.tenant_id,
          env: "live",
          lookup_hash: hash("sha256", own.key),
          display_prefix: own.display_prefix,
          scopes: ["a:b", 'qu"ote', "ü"],
          expires_at: "2099-02-03T04:05:06.007Z",
          rate_limits: [RULE],
        },
        expect.objectContaining({ key_id: inherits.id, rate_limits: [other], expires_at: null, scopes: [] }),
      ]);
      expect(headers.get("etag")).toBe(`W/"snap:${workspace.project_id}:all:all:4"`);
      expect(headers.get("cache-control")).toBe("private, no-cache");
      expect(headers.get("vary")).toBe("accept-encoding");
      expect(await workspace.actions()).not.toContain("policy.read");
    });

    it("returns the changes since a version, the latest state of each key, in order", async () => {
      const [a, b] = [await workspace.mint(), await workspace.mint()];
      const from = await version();
      await workspace.call("sk_owner", `PATCH /v1/keys/${a.id}`, { scopes: ["x"] });
      await revoke(b.id);
      await workspace.call("sk_owner", `PATCH /v1/keys/${a.id}`, { scopes: ["y"] });
      const { status, body, headers } = await delta(from);
      expect(status).toBe(200);
      expect(PolicyDelta.parse(body)).toEqual(body);
      expect(body).toMatchObject({ object: "policy_delta", since: from, version: from + 3, project_deleted: false });
      expect(body.changes).toEqual([
        {
          change: "remove",
          key_id: b.id,
          tenant_id: workspace.tenant_id,
          env: "live",
          lookup_hash: hash("sha256", b.key),
          display_prefix: b.display_prefix,
          reason: "revoked",
        },
        expect.objectContaining({ change: "upsert", key_id: a.id, scopes: ["y"] }),
      ]);
      expect(headers.get("etag")).toBe(`W/"delta:${workspace.project_id}:all:all:${from + 3}"`);
    });

    it("responds 304 without a body if nothing changed, for `since` and for If-None-Match", async () => {
      await workspace.mint();
      const now = await version();
      const same = await delta(now);
      expect([same.status, same.text]).toEqual([304, ""]);
      const etag = same.headers.get("etag") ?? "";
      expect(etag).toBe(`W/"delta:${workspace.project_id}:all:all:${now}"`);
      expect(same.headers.get("cache-control")).toBe("private, no-cache");
      const whole = (await snapshot()).headers.get("etag") ?? "";
      for (const tag of [whole, whole.replace("W/", ""), `"x", ${whole}`, "*"]) {
        expect((await snapshot("", { "if-none-match": tag })).status).toBe(304);
      }
      expect((await snapshot("", { "if-none-match": etag })).status).toBe(200);
      const [changed] = [await delta(now - 1)];
      expect((await delta(now - 1, "", { "if-none-match": changed.headers.get("etag") ?? "" })).status).toBe(304);
      await workspace.mint();
      expect((await snapshot("", { "if-none-match": whole })).status).toBe(200);
      expect((await delta(now, "", { "if-none-match": etag })).status).toBe(200);
    });

    it("filters by environment and tenants, both part of the etag", async () => {
      const second = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "second" })).body
        .id as string;
      const live = await workspace.mint();
      const test = await workspace.mint({ env: "test" });
      const theirs = await workspace.mint({ tenant_id: second });
      expect(ids(await snapshot("&env=live"))).toEqual([live.id, theirs.id]);
      expect(ids(await snapshot("&env=test"))).toEqual([test.id]);
      expect(ids(await snapshot(`&tenant_id=${second}`))).toEqual([theirs.id]);
      expect(ids(await snapshot(`&tenant_id=${FOREIGN}`))).toEqual([]);
      const both = await snapshot(`&env=live&tenant_id=${second}&tenant_id=${workspace.tenant_id}`);
      expect(ids(both)).toEqual([live.id, theirs.id]);
      const digest = hash("sha256", [second, workspace.tenant_id].toSorted().join(",")).slice(0, 16);
      expect(both.headers.get("etag")).toBe(`W/"snap:${workspace.project_id}:live:t-${digest}:${await version()}"`);
      const quiet = await delta((await version()) - 1, "&env=test");
      expect(quiet.body).toMatchObject({ env: "test", changes: [], version: await version() });
      const many = Array.from({ length: 51 }, () => `&tenant_id=${instance.app.services.newId()}`).join("");
      expectRefusal(await snapshot(many), 400, "invalid_request", "tenant_id");
    });

    it("confines a test key to the test environment", async () => {
      await workspace.mint();
      const test = await workspace.mint({ env: "test" });
      const path = `/v1/policy/snapshot?project_id=${workspace.project_id}`;
      const seen = await workspace.call("sk_test", `GET ${path}`);
      expect([seen.body.env, ids(seen)]).toEqual(["test", [test.id]]);
      expectRefusal(await workspace.call("sk_test", `GET ${path}&env=live`), 403, "forbidden");
    });

    it("responds the same 404 to another workspace's project as to an unknown one", async () => {
      await snapshot();
      const stranger = await instance.workspace();
      for (const id of [workspace.project_id, FOREIGN]) {
        expectRefusal(await stranger.call("sk_owner", `GET /v1/policy/snapshot?project_id=${id}`), 404, "not_found");
        expectRefusal(
          await stranger.call("sk_owner", `GET /v1/policy/delta?project_id=${id}&since=1`),
          404,
          "not_found",
        );
      }
    });

    it("pages by cursor at the first page's version, and rejects an unpaged snapshot above the ceiling", async () => {
      const made: string[] = [];
      for (let i = 0; i < 6; i++) made.push((await workspace.mint()).id);
      const before = await version();
      expectRefusal(await snapshot(), 413, "snapshot_too_large");
      expectRefusal(await delta(0), 413, "snapshot_too_large");
      const first = await snapshot("&max_keys=99"); // clamped to the ceiling of four
      expect(ids(first)).toEqual(made.slice(0, 4));
      await workspace.mint();
      const second = await snapshot(`&max_keys=1&cursor=${first.body.next_cursor}`);
      expect([second.body.version, ids(second)]).toEqual([before, [made[4]]]);
      const rest = await snapshot(`&cursor=${second.body.next_cursor}`);
      expect([rest.body.version, ids(rest).length, rest.body.next_cursor]).toEqual([before, 2, null]);
      expect(ids(await delta(before))).toHaveLength(1);
      const viaDelta = await delta(0, "&max_keys=4");
      expect([viaDelta.body.object, ids(viaDelta).length]).toEqual(["policy_snapshot", 4]);
      expect(ids(await snapshot(`&max_keys=4&cursor=${viaDelta.body.next_cursor}`))).toHaveLength(3);
    });

    it("rejects a cursor that is invalid, foreign, of another filter or too old, and names it", async () => {
      for (let i = 0; i < 3; i++) await workspace.mint();
      const cursor = (await snapshot("&max_keys=1")).body.next_cursor as string;
      const other = (await workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "other" })).body
        .id as string;
      const flipped = `${cursor.slice(0, 9)}${cursor[9] === "A" ? "B" : "A"}${cursor.slice(10)}`;
      for (const bad of ["x", "A".repeat(512), flipped, `${cursor}AA`, cursor.slice(0, -2)]) {
        expectRefusal(await snapshot(`&cursor=${bad}`), 400, "invalid_request", "cursor");
      }
      expectRefusal(await snapshot(`&cursor=${"A".repeat(513)}`), 400, "invalid_request", "cursor");
      expectRefusal(await snapshot(`&env=live&cursor=${cursor}`), 400, "invalid_request", "cursor");
      expectRefusal(
        await snapshot(`&tenant_id=${workspace.tenant_id}&cursor=${cursor}`),
        400,
        "invalid_request",
        "cursor",
      );
      const elsewhere = await workspace.call(
        "sk_owner",
        `GET /v1/policy/snapshot?project_id=${other}&cursor=${cursor}`,
      );
      expectRefusal(elsewhere, 400, "invalid_request", "cursor");
      instance.clock.advance(7 * DAY_MS);
      expect((await snapshot(`&cursor=${cursor}`)).status).toBe(200);
      instance.clock.advance(1);
      expectRefusal(await snapshot(`&cursor=${cursor}`), 400, "invalid_request", "cursor");
      // The page that held it is built again, so a node that restarts recovers.
      const again = (await snapshot("&max_keys=1")).body.next_cursor as string;
      expect((await snapshot(`&cursor=${again}`)).status).toBe(200);
    });
  });
}
