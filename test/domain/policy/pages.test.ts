// The one exception to portable SQL (docs/design/0008-one-portable-sql.md): each dialect builds the JSON of the feed
// itself, and both must produce the same bytes.
import { describe, expect, it } from "vitest";
import { changesSince, snapshotChunk } from "../../../src/store/queries/policy.ts";
import type { ChangesParams, ChunkParams } from "../../../src/store/queries/policy-entries.ts";
import type { Reader } from "../../../src/store/engine/tx.ts";
import type { ApiKeyRow } from "../../../src/store/schema/tables.ts";
import { insertKey } from "../../../src/store/queries/keys.ts";
import { insertPlan } from "../../../src/store/queries/plans.ts";
import { insertProject } from "../../../src/store/queries/projects.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";
import { record } from "../../../src/domain/core/record.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, START, vendorOf } from "../../../harness/instances/test-services.ts";

const uuid = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const TIMES = [null, 0, 1, 999, 1_000, 951_782_399_999, START, 4_102_444_800_001, 253_402_300_799_999];
const SCOPES = ["[]", '["a"]', '["ü","\\u2028","\\"","\\\\","😀"]', '["a b","x:y"]', '["{\\"key_id\\":\\"x"]'];
const LIMITS = [null, "[]", '[{"id":"r","limit":1,"window_ms":1000,"algorithm":"fixed","scope":"key"}]'];
const LISTS = [null, null, "[]", '["10.0.0.0/8","2001:db8::/32"]'];
const MODES = ["report", "enforce"] as const;
const CAUSES = [null, "revoked", "tenant_deleted", "project_deleted"] as const;

const PLAN = {
  name: "Plan",
  slug: "plan",
  rate_limits: '[{"id":"plan"}]',
  scopes: '["ü","\\"","😀","{\\"key_id\\":\\"x","x:y","\\u2028"]',
  max_keys: null,
  key_ttl_days: null,
  quotas: null,
  meta: "{}",
  tenant_count: 2,
  created_at: START,
  updated_at: START,
  deleted_at: null,
};

function rows(workspace_id: string): ApiKeyRow[] {
  return Array.from({ length: 120 }, (_none, n) => {
    const cause = n % 3 === 0 ? (CAUSES[(n / 3) % 4] ?? null) : null;
    return {
      id: uuid(1_000 + n),
      workspace_id,
      project_id: uuid(1),
      tenant_id: uuid(10 + (n % 3)),
      env: n % 2 === 0 ? "live" : "test",
      lookup_hash: String(n).padStart(64, "0"),
      display_prefix: `${n % 7 === 0 ? "acme" : "kr"}_live_ab${n}`,
      name: null,
      scopes: SCOPES[n % SCOPES.length] ?? "[]",
      meta: "{}",
      rate_limits: LIMITS[n % LIMITS.length] ?? null,
      expires_at: TIMES[n % TIMES.length] ?? null,
      requested_expires_at: null,
      revoked_at: cause === null ? null : START,
      revoked_reason: null,
      revoked_cause: cause,
      quarantined_at: null,
      quarantine_reason: null,
      rotated_from: null,
      created_at: START,
      last_used_at: null,
      policy_version: 2 + (n % 7),
      disabled_at: n % 5 === 0 ? START : null,
      disabled_reason: null,
      enabled_at: null,
      allowed_cidrs: LISTS[n % LISTS.length] ?? null,
      ip_mode: n % 11 === 0 ? "report" : "enforce",
      quotas: null,
      lineage_id: null,
    };
  });
}

async function readPages(read: Reader, workspace_id: string, caps: number, tenantRules: boolean): Promise<string[]> {
  const base = { workspace_id, project_id: uuid(1), defaults: '[{"id":"default"}]', tenantRules, caps };
  const filters = [
    { env: null, tenants: [] },
    { env: "live" as const, tenants: [] },
    { env: "test" as const, tenants: [uuid(10), uuid(12)] },
    { env: null, tenants: [uuid(11)] },
  ];
  const pages: string[] = [];
  for (const filter of filters) {
    for (const limit of [7, 1_000]) {
      const params: ChunkParams = { ...base, ...filter, after: "", limit, expiredBefore: 1_000 };
      for (let after = ""; ; ) {
        const { entries, n, last_id, first_expiry } = await snapshotChunk(read, { ...params, after });
        const keys = JSON.parse(`[${entries.toString()}]`) as { key_id: string }[];
        expect([n, last_id]).toEqual([keys.length, keys.at(-1)?.key_id ?? null]);
        pages.push(`${n} ${last_id} ${first_expiry} ${entries.toString()}`);
        if (n < limit) break;
        after = last_id ?? "";
      }
      const changes: ChangesParams = { ...base, ...filter, since: 3, upTo: 6, limit };
      pages.push(
        JSON.stringify(
          (await changesSince(read, changes)).map(({ entry, ...rest }) => ({ ...rest, entry: String(entry) })),
        ),
      );
    }
  }
  return pages;
}

async function pagesOn(backend: (typeof backends)[number]): Promise<string[]> {
  await using fixture = await testServices(backend);
  const { actor } = await vendorOf(fixture.services);
  const { workspace_id } = actor;
  const at = { created_env: "live" as const, created_at: START, updated_at: START, deleted_at: null };
  await record(fixture.services, async (tx) => {
    const project = { id: uuid(1), workspace_id, name: "p", slug: "ppp", policy_version: 9, min_delta_version: 1 };
    await insertProject.run(tx, {
      ...project,
      default_rate_limits: "[]",
      key_policy: null,
      scope_catalogue: "[]",
      idle_changed_at: null,
      ...at,
      features: 0,
      key_prefix: "kr",
      key_prefixes: '["kr"]',
    });
    await insertPlan.run(tx, { ...PLAN, id: uuid(2), workspace_id });
    for (const n of [10, 11, 12]) {
      const tenant = { id: uuid(n), workspace_id, external_id: `t${n}`, name: null, meta: "{}", embed_epoch: 1 };
      const suspended_at = n === 12 ? START : null;
      const rules = { plan_id: n === 10 ? null : uuid(2), rate_limits: n === 11 ? null : '[{"id":"tenant"}]' };
      const list = { allowed_cidrs: n === 10 ? "[]" : '["198.51.100.0/24"]', ip_mode: MODES[n % 2] ?? "enforce" };
      await insertTenant.run(tx, {
        ...tenant,
        ...at,
        suspended_at,
        suspended_reason: null,
        quotas: null,
        ...rules,
        ...list,
      });
    }
    for (const row of rows(workspace_id)) await insertKey.run(tx, row);
  });
  const pages: string[] = [];
  for (let caps = 0; caps < 8; caps++)
    for (const tenantRules of [false, true])
      pages.push(...(await readPages(fixture.services.store.read, workspace_id, caps, tenantRules)));
  return pages;
}

describe("the feed's JSON built in SQL", () => {
  it("is valid JSON with the same bytes on every database", async () => {
    const all = await Promise.all(backends.map(pagesOn));
    for (const pages of all) expect(pages.findIndex((page, i) => page !== all[0]?.[i])).toBe(-1);
    expect(new Set(all.map((pages) => pages.length)).size).toBe(1);
    for (const page of all[0] ?? []) {
      if (page.startsWith("[")) for (const { entry } of JSON.parse(page)) expect(() => JSON.parse(entry)).not.toThrow();
      else expect(() => JSON.parse(`[${page.split(" ").slice(3).join(" ")}]`)).not.toThrow();
    }
  });

  it("formats times like the other endpoints", async () => {
    const pages = (await pagesOn("sqlite")).join("\n");
    for (const time of TIMES.filter((ms) => ms !== null && ms >= 1_000)) {
      const shown = `"expires_at":"${new Date(time ?? 0).toISOString()}"`;
      expect(pages.includes(shown), shown).toBe(true);
    }
  });
});
