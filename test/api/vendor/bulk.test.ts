// One action on many keys: what matches, what each call changes, and what a repeated or interrupted run does.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

type AuditRow = { action: string; target_id: string; payload: Json };
type Listed = { id: string; successor_id: string; key: string };

for (const backend of runBackends) {
  describe(`a bulk action on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const bulk = (w: Workspace, body: object, as: "sk_owner" | "sk_test" = "sk_owner", key?: string) =>
      w.call(as, "POST /v1/bulk/keys", body, key ? { headers: { "idempotency-key": key } } : {});
    const mintMany = async (w: Workspace, count: number, more: Json = {}) => {
      const minted: { id: string }[] = [];
      for (let i = 0; i < count; i++) minted.push(await w.mint(more));
      return minted.map(({ id }) => id);
    };
    const version = async (w: Workspace): Promise<number> =>
      (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body.policy_version;
    const audit = async (w: Workspace, action: string): Promise<AuditRow[]> =>
      (await w.call("sk_owner", `GET /v1/audit_logs?limit=200&action=${action}`)).body.data;
    const listed = async (w: Workspace): Promise<(Json & { id: string; rotated_from: string | null })[]> =>
      (await w.call("sk_owner", "GET /v1/keys?limit=200&include_revoked=true")).body.data;
    const idsOf = (data: Json[]): unknown[] => data.map(({ id }) => id);

    it("changes page after page, each in one policy version with one audit row a key", async () => {
      const w = await instance.workspace();
      const ids = await mintMany(w, 5);
      const before = await version(w);
      const request = { action: "revoke", filter: { project_id: w.project_id }, limit: 2, reason: "contract ended" };
      const seen: unknown[] = [];
      let cursor: string | undefined;
      let bulk_id = "";
      for (const changed of [2, 2, 1]) {
        const { body } = await bulk(w, { ...request, ...(cursor && { cursor }) });
        expect(body).toMatchObject({ object: "bulk_result", action: "revoke", dry_run: false, changed });
        expect(body.matched).toBe(cursor ? null : 5);
        expect(body.bulk_id).toBe(bulk_id || body.bulk_id);
        expect(body.versions).toEqual([{ project_id: w.project_id, version: await version(w) }]);
        seen.push(...idsOf(body.data));
        ({ bulk_id, next_cursor: cursor } = body);
      }
      expect([seen, cursor, await version(w)]).toEqual([ids, null, before + 3]);
      const { body: delta } = await w.call(
        "sk_owner",
        `GET /v1/policy/delta?project_id=${w.project_id}&since=${before}`,
      );
      expect(delta.changes.map((change: Json) => [change.change, change.reason])).toEqual(
        ids.map(() => ["remove", "revoked"]),
      );
      const rows = await audit(w, "api_key.revoked");
      expect(rows.map(({ target_id, payload }) => [target_id, payload])).toEqual(
        ids.map((id) => [id, { env: "live", reason: "contract ended", bulk_id }]),
      );
      const again = await bulk(w, request);
      expect([again.body.matched, again.body.changed, await version(w)]).toEqual([0, 0, before + 3]);
    });

    it("disables, enables and skips what already is so", async () => {
      const w = await instance.workspace();
      const [first = "", second = "", revoked = ""] = await mintMany(w, 3);
      await w.call("sk_owner", `POST /v1/keys/${first}/disable`, { reason: "first" });
      await w.call("sk_owner", `POST /v1/keys/${revoked}/revoke`, {});
      const filter = { ids: [second, first, revoked, instance.app.services.newId()] };
      const disabled = await bulk(w, { action: "disable", filter, reason: "later" });
      expect([disabled.body.matched, idsOf(disabled.body.data)]).toEqual([1, [second]]);
      expect((await w.call("sk_owner", `GET /v1/keys/${first}`)).body.disabled_reason).toBe("first");
      const enabled = await bulk(w, { action: "enable", filter });
      expect(idsOf(enabled.body.data)).toEqual([first, second]);
      expect((await listed(w)).map(({ disabled_at, disabled_reason }) => [disabled_at, disabled_reason])).toEqual([
        [null, null],
        [null, null],
        [null, null],
      ]);
      expect(await audit(w, "api_key.enabled")).toHaveLength(2);
    });

    it("rotates each key once, however often it is run, and never its own successors", async () => {
      const w = await instance.workspace();
      const ids = await mintMany(w, 3, { scopes: ["read"], meta: { plan: "pro" } });
      const disabled = await w.mint();
      await w.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const request = { action: "rotate", filter: { all: true }, overlap_hours: 1, limit: 2, expect: 3 };
      const first = (await bulk(w, request, "sk_owner", "page-1")).body;
      await w.mint(); // more match by now than expected
      const replayed = await bulk(w, request, "sk_owner", "page-1");
      expect([replayed.body, replayed.headers.get("idempotent-replayed")]).toEqual([first, "true"]);
      const { bulk_id, next_cursor } = first;
      const second = (await bulk(w, { ...request, cursor: next_cursor })).body;
      const startedOver = (await bulk(w, { ...request, bulk_id })).body;
      const afresh = (await bulk(w, { action: "rotate", filter: { ids } })).body;
      expect([second.next_cursor, startedOver.matched, afresh.matched]).toEqual([null, 0, 0]);
      const data: Listed[] = [...first.data, ...second.data];
      expect(data.map(({ id }) => id)).toEqual(ids);
      const keys = await listed(w);
      for (const { id, successor_id, key } of data) {
        expect(keys.filter(({ rotated_from }) => rotated_from === id).map((row) => row.id)).toEqual([successor_id]);
        const { body } = await w.call("sk_owner", "POST /v1/keys/lookup", { key });
        expect([body.admitted, body.record.id, body.record.scopes, body.record.meta]).toEqual([
          true,
          successor_id,
          ["read"],
          { plan: "pro" },
        ]);
      }
      const rows = await audit(w, "api_key.rotated");
      expect(rows.map(({ payload }) => payload)).toEqual(
        data.map(({ successor_id }) => ({ env: "live", successor_id, overlap_hours: 1, bulk_id })),
      );
    });

    it("changes nothing in a dry run, or where more keys match than expected", async () => {
      const w = await instance.workspace();
      const ids = await mintMany(w, 3);
      const before = await version(w);
      const dry = (await bulk(w, { action: "revoke", filter: { all: true }, dry_run: true, limit: 2 })).body;
      expect(dry).toMatchObject({ dry_run: true, matched: 3, changed: 0, versions: [] });
      expect(idsOf(dry.data)).toEqual(ids.slice(0, 2));
      const refused = await bulk(w, { action: "revoke", filter: { all: true }, expect: 2 });
      expectRefusal(refused, 409, "conflict", "expect");
      expect([await version(w), await audit(w, "api_key.revoked")]).toEqual([before, []]);
      await w.mint(); // after the dry run: the run with its id does not match it
      const done = await bulk(w, { action: "revoke", filter: { all: true }, expect: 3, bulk_id: dry.bulk_id });
      expect([done.status, idsOf(done.body.data)]).toEqual([200, ids]);
    });

    it("takes no id but that of the same run as the end of what it matches", async () => {
      const w = await instance.workspace();
      const filter = { tenant_id: w.tenant_id };
      const dry = (await bulk(w, { action: "disable", filter, dry_run: true })).body;
      const [id] = await mintMany(w, 1);
      for (const bulk_id of [w.project_id, dry.bulk_id]) {
        const swept = (await bulk(w, { action: "revoke", filter, bulk_id, dry_run: true })).body;
        expect([swept.bulk_id, idsOf(swept.data)]).toEqual([bulk_id, [id]]);
      }
      const other = (await bulk(w, { action: "disable", filter: { ids: [id] }, bulk_id: dry.bulk_id })).body;
      expect([other.changed, (await audit(w, "api_key.disabled"))[0]?.payload]).toEqual([
        1,
        { env: "live", reason: null, bulk_id: dry.bulk_id },
      ]);
    });

    it("refuses its own id after seven days, instead of rotating the successors", async () => {
      const w = await instance.workspace();
      await mintMany(w, 1);
      const rotate = { action: "rotate", filter: { tenant_id: w.tenant_id } };
      const { bulk_id, changed } = (await bulk(w, rotate)).body;
      expect([changed, (await bulk(w, { ...rotate, bulk_id })).body.changed]).toEqual([1, 0]);
      instance.clock.advance(7 * 86_400_000 + 1);
      expectRefusal(await bulk(w, { ...rotate, bulk_id }), 400, "invalid_request", "bulk_id");
    });

    it("matches by every filter", async () => {
      const w = await instance.workspace();
      const at = (): string => new Date(instance.clock.now()).toISOString();
      const other = (await w.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      const tenant = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "t2" })).body.id;
      const old = await w.mint({ name: "old" });
      instance.clock.advance(1_000);
      const expiring = await w.mint({
        name: "expiring",
        expires_at: new Date(instance.clock.now() + 500).toISOString(),
      });
      instance.clock.advance(1_000);
      const middle = at();
      instance.clock.advance(1_000);
      await w.mint({ name: "scoped", scopes: ['a"b', "read"] });
      await w.mint({ name: "elsewhere", project_id: other });
      await w.mint({ name: "theirs", tenant_id: tenant });
      await w.mint({ name: "tested", env: "test" });
      const leaked = await w.mint({ name: "leaked" });
      await instance.sql(`update api_keys set quarantined_at = ${instance.clock.now()} where id = '${leaked.id}'`);
      await instance.sql(`update api_keys set last_used_at = ${instance.clock.now()} where id = '${old.id}'`);
      // Reported by a node whose clock is late.
      await instance.sql(`update api_keys set last_used_at = ${Date.parse(middle) - 1} where id = '${leaked.id}'`);
      const cases: [object, string[]][] = [
        [{ ids: [old.id, expiring.id] }, ["old", "expiring"]],
        [{ project_id: other }, ["elsewhere"]],
        [{ tenant_id: tenant }, ["theirs"]],
        [{ tenant_id: [tenant, w.tenant_id], created_before: middle }, ["old", "expiring"]],
        [{ env: "test", all: true }, ["tested"]],
        [{ scope: "read" }, ["scoped"]],
        [{ scope: 'a"b' }, ["scoped"]],
        [{ scope: "b" }, []],
        [{ created_before: middle, state: "active" }, ["old"]],
        [{ created_before: middle, state: "expired" }, ["expiring"]],
        [{ created_after: middle, state: "quarantined" }, ["leaked"]],
        [{ unused_since: middle }, ["expiring"]],
        [{ prefix: "kr", created_before: middle }, ["old", "expiring"]],
        [{ prefix: "other" }, []],
        [{ prefix: "kr", state: "disabled" }, []],
      ];
      for (const [filter, names] of cases) {
        const { body, text } = await bulk(w, { action: "revoke", filter, dry_run: true });
        expect([body.matched, body.data?.map(({ name }: Json) => name)], text).toEqual([names.length, names]);
      }
    });

    it("refuses a filter that names nothing, fields of another action and a cursor of another run", async () => {
      const w = await instance.workspace();
      await mintMany(w, 2);
      const all = { all: true };
      for (const [body, path] of [
        [{ action: "revoke", filter: {} }, "filter"],
        [{ action: "revoke", filter: { env: "live", state: "active" } }, "filter"],
        [{ action: "revoke", filter: { all: true, scope: "a" } }, "filter"],
        [{ action: "enable", filter: all, reason: "why" }, "reason"],
        [{ action: "revoke", filter: all, overlap_hours: 1 }, "overlap_hours"],
        [{ action: "revoke", filter: all, limit: 501 }, "limit"],
        [{ action: "mint", filter: all }, "action"],
      ] as const)
        expectRefusal(await bulk(w, body), 400, "invalid_request", path);
      const mistyped = await bulk(w, { action: "revoke", filter: { tenant_id: { id: w.tenant_id } } });
      const problem = { path: "filter.tenant_id", message: "must be a UUID, or a list of 1 to 50" };
      expect(mistyped.body.error.details).toEqual([problem]);
      const { next_cursor: cursor } = (await bulk(w, { action: "revoke", filter: all, dry_run: true, limit: 1 })).body;
      for (const body of [
        { action: "disable", filter: all, cursor },
        { action: "revoke", filter: { ...all, env: "live" }, cursor },
        { action: "revoke", filter: all, cursor: "x" },
      ])
        expectRefusal(await bulk(w, body), 400, "invalid_request", "cursor");
      instance.clock.advance(7 * DAY_MS + 1);
      expectRefusal(await bulk(w, { action: "revoke", filter: all, cursor }), 400, "invalid_request", "cursor");
      expect(await audit(w, "api_key.revoked")).toEqual([]);
    });

    it("stays within the workspace, the environment and the projects of its caller", async () => {
      const [w, stranger] = [await instance.workspace(), await instance.workspace()];
      const foreign = await stranger.mint();
      const live = await w.mint();
      const tested = await w.mint({ env: "test" });
      const ids = [foreign.id, live.id, tested.id];
      expectRefusal(await bulk(w, { action: "revoke", filter: { ids, env: "live" } }, "sk_test"), 403, "forbidden");
      expect(idsOf((await bulk(w, { action: "revoke", filter: { ids } }, "sk_test")).body.data)).toEqual([tested.id]);
      const other = (await w.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      const elsewhere = await w.mint({ project_id: other });
      const restricted = { env: "live", permissions: ["manage"], project_ids: [other] };
      const { key } = (await w.call("sk_owner", "POST /v1/secret_keys", restricted)).body;
      const confined = await instance.call(key, "POST /v1/bulk/keys", { action: "revoke", filter: { all: true } });
      expect(idsOf(confined.body.data)).toEqual([elsewhere.id]);
      const reader = (await w.call("sk_owner", "POST /v1/secret_keys", { env: "live", permissions: ["read"] })).body;
      const request = { action: "revoke", filter: { all: true }, dry_run: true };
      expectRefusal(await instance.call(reader.key, "POST /v1/bulk/keys", request), 403, "forbidden", "permissions");
      expect((await w.call("sk_owner", `GET /v1/keys/${live.id}`)).body.revoked_at).toBeNull();
      expect((await stranger.call("sk_owner", `GET /v1/keys/${foreign.id}`)).body.revoked_at).toBeNull();
    });
  });
}
