// Usage and billing figures: filled with zeros, in UTC, ordered, and confined for test credentials.
import { beforeEach, describe, expect, it } from "vitest";
import { reapIngest } from "../../../src/domain/ingest/ingest.ts";
import { reapUsage } from "../../../src/domain/usage/usage.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const START = Date.UTC(2026, 9, 31, 23, 59, 30);
const iso = (ms: number): string => new Date(ms).toISOString();

for (const backend of backends) {
  describe(`usage on ${backend}`, () => {
    const instance = sharedInstance(backend, { clock: testClock(START) });
    let workspace: Workspace;
    let key: { id: string };
    let serial = 0;
    beforeEach(async () => {
      instance.clock.set(START);
      workspace = await instance.workspace();
      key = await workspace.mint();
    });

    const report = async (...events: Json[]): Promise<void> => {
      const base = { project_id: workspace.project_id, env: "live", tenant_id: workspace.tenant_id, key_id: key.id };
      const rest = { method: "GET", path: "/", route: null, status: 200, duration_ms: 0, degraded: false };
      const full = events.map((more) => ({
        ts: iso(instance.clock.now()),
        ...base,
        ...rest,
        request_id: `r${++serial}`,
        ...more,
      }));
      const sdk = { name: "t", version: "1" };
      const body = { object: "ingest_batch", protocol_version: 1, node_id: "n", sdk, events: full };
      expect((await workspace.call("sk_owner", "POST /v1/ingest/batch", body)).status).toBe(202);
    };
    const tenant = async (name: string): Promise<string> =>
      (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: name })).body.id as string;
    const get = async (path: string, as: "sk_owner" | "sk_test" = "sk_owner") => workspace.call(as, `GET ${path}`);

    it("returns exactly `days` rows, oldest first, today last, filled with zeros", async () => {
      await report({ ts: iso(START - 2 * DAY_MS), status: 401, denial_reason: "revoked" }, {});
      const { body } = await get(`/v1/keys/${key.id}/usage?days=4`);
      expect(body).toEqual({
        object: "usage",
        key_id: key.id,
        days: 4,
        data: [
          { day: "2026-10-28", requests: 0, errors: 0 },
          { day: "2026-10-29", requests: 1, errors: 1 },
          { day: "2026-10-30", requests: 0, errors: 0 },
          { day: "2026-10-31", requests: 1, errors: 0 },
        ],
      });
      expect((await get(`/v1/keys/${key.id}/usage`)).body.data).toHaveLength(30);
      instance.clock.advance(30_000);
      expect((await get(`/v1/keys/${key.id}/usage?days=1`)).body.data).toEqual([
        { day: "2026-11-01", requests: 0, errors: 0 },
      ]);
      for (const days of [0, 91]) {
        expectRefusal(await get(`/v1/keys/${key.id}/usage?days=${days}`), 400, "invalid_request", "days");
      }
    });

    it("hides another workspace's key and, from a test key, a live one", async () => {
      const other = await instance.workspace();
      expectRefusal(await other.call("sk_owner", `GET /v1/keys/${key.id}/usage`), 404, "not_found");
      expectRefusal(await get(`/v1/keys/${key.id}/usage`, "sk_test"), 404, "not_found");
      const test = await workspace.mint({ env: "test" });
      expect((await get(`/v1/keys/${test.id}/usage`, "sk_test")).status).toBe(200);
    });

    it("bills a tenant once a month across projects, only when live and admitted", async () => {
      const [refused, tested, roaming] = [await tenant("refused"), await tenant("tested"), await tenant("roaming")];
      const project = (await workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      await report(
        {},
        { status: 500 },
        { key_id: null, tenant_id: roaming },
        { key_id: null, tenant_id: roaming, project_id: project },
        { key_id: null, tenant_id: refused, denial_reason: "expired", status: 401 },
        { key_id: null, tenant_id: tested, env: "test" },
        { key_id: null, tenant_id: null },
      );
      instance.clock.advance(30_000); // November
      await report({ ts: iso(instance.clock.now()) }, { ts: iso(START) });
      const { body } = await get("/v1/usage/billing?months=3");
      expect(body).toEqual({
        object: "list",
        data: [
          { object: "billable_tenant_month", month: "2026-11-01", active_tenants: 1 },
          { object: "billable_tenant_month", month: "2026-10-01", active_tenants: 2 },
          { object: "billable_tenant_month", month: "2026-09-01", active_tenants: 0 },
        ],
      });
      expect((await get("/v1/usage/billing")).body.data).toHaveLength(6);
      expectRefusal(await get("/v1/usage/billing?months=25"), 400, "invalid_request", "months");
      expectRefusal(await get("/v1/usage/billing", "sk_test"), 403, "forbidden");
    });

    it("lists tenant activity of admitted events, newest month and busiest tenant first", async () => {
      const busy = await tenant("busy");
      const test = await workspace.mint({ env: "test" });
      await report(
        {},
        { denial_reason: "scope", status: 403 },
        { key_id: null, tenant_id: busy, sample_rate: 0.5 },
        { key_id: null, tenant_id: busy, ts: iso(START - 1000) },
        { key_id: test.id, env: "test" },
      );
      instance.clock.advance(30_000);
      await report({});
      const row = (tenant_id: string, month: string, request_count: number, more: Json = {}): Json => ({
        object: "tenant_activity_month",
        tenant_id,
        project_id: workspace.project_id,
        env: "live",
        month,
        request_count,
        first_seen_at: iso(START),
        last_seen_at: iso(START),
        ...more,
      });
      const november = { first_seen_at: iso(START + 30_000), last_seen_at: iso(START + 30_000) };
      expect((await get("/v1/usage/tenants?months=2&env=live")).body.data).toEqual([
        row(workspace.tenant_id, "2026-11-01", 1, november),
        row(busy, "2026-10-01", 3, { first_seen_at: iso(START - 1000) }),
        row(workspace.tenant_id, "2026-10-01", 1),
      ]);
      expect((await get("/v1/usage/tenants")).body.data).toEqual([row(workspace.tenant_id, "2026-11-01", 1, november)]);
      expect((await get("/v1/usage/tenants?months=2")).body.data).toHaveLength(4);
      expect((await get("/v1/usage/tenants?months=2&env=live&limit=2")).body).toMatchObject({
        data: [{ month: "2026-11-01" }, { month: "2026-10-01", tenant_id: busy }],
        has_more: true,
      });
      expect((await get("/v1/usage/tenants?months=2&limit=4")).body.has_more).toBeUndefined();
      expectRefusal(await get("/v1/usage/tenants?limit=10001"), 400, "invalid_request", "limit");
      expect((await get("/v1/usage/tenants?months=2", "sk_test")).body.data).toEqual([
        row(workspace.tenant_id, "2026-10-01", 1, { env: "test" }),
      ]);
      expectRefusal(await get("/v1/usage/tenants?env=live", "sk_test"), 403, "forbidden");
    });

    it("keeps daily figures for 400 days, months forever, and receipts for 24 hours", async () => {
      await report({});
      instance.clock.advance(DAY_MS - 1);
      await reapIngest(instance.app.services);
      expect(await instance.sql(`select 1 from ingest_batches where workspace_id = '${workspace.id}'`)).toHaveLength(1);
      instance.clock.advance(1);
      await reapIngest(instance.app.services);
      expect(await instance.sql(`select 1 from ingest_batches where workspace_id = '${workspace.id}'`)).toHaveLength(0);
      instance.clock.set(START + 400 * DAY_MS);
      await reapUsage(instance.app.services);
      expect(await instance.sql(`select 1 from usage_days where workspace_id = '${workspace.id}'`)).toHaveLength(1);
      instance.clock.advance(DAY_MS);
      await reapUsage(instance.app.services);
      expect(await instance.sql(`select 1 from usage_days where workspace_id = '${workspace.id}'`)).toHaveLength(0);
      expect(
        await instance.sql(`select 1 from usage_tenant_months where workspace_id = '${workspace.id}'`),
      ).toHaveLength(1);
    });
  });
}
