// Every combination of what a library of 0.1.0 does not know, on one key each: an old node admits only what it can
// enforce whole, a new one follows each rule, and a feature that is taken away frees no key that has another.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { earlierSdk } from "../../harness/sdk/earlier-sdk.ts";
import { until } from "../../harness/waiting.ts";
import { createKeyrack } from "../../src/sdk/index.ts";

const FEATURES = ["prefix", "list", "reported list", "quota", "disabled", "suspended"] as const;
type Feature = (typeof FEATURES)[number];
type Features = ReadonlySet<Feature>;
type Removable = Exclude<Feature, "prefix">;

const LIST = { allowed_cidrs: ["203.0.113.0/24"] };
const [INSIDE, OUTSIDE] = ["203.0.113.9", "198.51.100.1"];

/** A key has one list, which is enforced or only reported. */
const COMBINATIONS = Array.from({ length: 2 ** FEATURES.length }, (_, bits) => {
  return new Set(FEATURES.filter((_feature, i) => (bits & (1 << i)) !== 0));
}).filter((features) => !(features.has("list") && features.has("reported list")));

const removable = (features: Features): Removable[] =>
  FEATURES.filter((feature) => feature !== "prefix").filter((feature) => features.has(feature));

/** A key that is disabled or suspended is removed from an old node; one that needs a capability never reaches it. */
function ofOldNode(features: Features): string {
  const isServed = !["prefix", "list", "quota", "disabled", "suspended"].some((one) => features.has(one as Feature));
  return isServed ? "200" : "401 invalid_key";
}

function ofNewNode(features: Features, ip: string): string {
  if (features.has("suspended")) return "403 tenant_suspended";
  if (features.has("disabled")) return "403 key_disabled";
  return features.has("list") && ip === OUTSIDE ? "403 ip_not_allowed" : "200";
}

type Case = { id: string; key: string; tenant_id: string; features: Set<Feature> };

describe.each(runBackends)("old and new nodes on %s", (backend) => {
  it("give the verdict that follows from all features of a key, whatever is combined and taken away", async () => {
    await using instance = await testInstance(backend);
    const workspace = await instance.workspace();
    const call = async (route: string, body: object) => {
      const reply = await workspace.call("sk_owner", route, body);
      expect(reply.status, route).toBeLessThan(300);
      return reply.body;
    };
    const options = { url: instance.url, secretKey: workspace.keys.sk_owner, projectId: workspace.project_id };
    const old = (await earlierSdk()).createKeyrack({ ...options, nodeId: "old" });
    const fresh = createKeyrack({ ...options, nodeId: "new" });
    const code = (verdict: { ok: true } | { ok: false; status: number; code: string }): string =>
      verdict.ok ? "200" : `${verdict.status} ${verdict.code}`;
    const cases: Case[] = [];
    const mint = async (features: Set<Feature>): Promise<void> => {
      const { id: tenant_id } = await call("POST /v1/tenants", { external_id: `t-${cases.length}` });
      const list = features.has("list") || features.has("reported list") ? LIST : {};
      const mode = features.has("reported list") ? { ip_mode: "report" } : {};
      const quotas = features.has("quota") ? { quotas: [{ id: "calls", amount: 9, refill: "none" }] } : {};
      const { id, key } = await workspace.mint({ tenant_id, ...list, ...mode, ...quotas });
      if (features.has("disabled")) await call(`POST /v1/keys/${id}/disable`, {});
      if (features.has("suspended")) await call(`POST /v1/tenants/${tenant_id}/suspend`, {});
      cases.push({ id, key, tenant_id, features });
    };
    /** Of every key, what the nodes answer once they have the newest policy, and what they have to. */
    const compare = async (): Promise<void> => {
      const { policy_version } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body;
      await until(() => old.status().version === policy_version && fresh.status().version === policy_version);
      for (const { key, features } of cases) {
        const given = [code(old.verify(key)), ...[INSIDE, OUTSIDE].map((ip) => code(fresh.verify(key, { ip })))];
        const due = [ofOldNode(features), ...[INSIDE, OUTSIDE].map((ip) => ofNewNode(features, ip))];
        expect(given, [...features].join(" + ")).toEqual(due);
      }
    };
    const take: Record<Removable, (one: Case) => Promise<unknown>> = {
      list: ({ id }) => call(`PATCH /v1/keys/${id}`, { allowed_cidrs: [] }),
      "reported list": ({ id }) => call(`PATCH /v1/keys/${id}`, { allowed_cidrs: [] }),
      quota: ({ id }) => call(`PATCH /v1/keys/${id}`, { quotas: [] }),
      disabled: ({ id }) => call(`POST /v1/keys/${id}/enable`, {}),
      suspended: ({ tenant_id }) => call(`POST /v1/tenants/${tenant_id}/resume`, {}),
    };
    try {
      for (const features of COMBINATIONS.filter((one) => !one.has("prefix"))) await mint(features);
      await call(`PATCH /v1/projects/${workspace.project_id}`, { key_prefix: `all${backend.slice(0, 2)}` });
      for (const features of COMBINATIONS.filter((one) => one.has("prefix"))) await mint(features);
      await Promise.all([old.ready(), fresh.ready()]);
      await compare();
      // One feature of each key at a time, in another order for each; its prefix stays.
      for (let round = 0; cases.some(({ features }) => removable(features).length > 0); round++) {
        for (const [i, one] of cases.entries()) {
          const left = removable(one.features);
          const gone = left[(i + round) % Math.max(1, left.length)];
          if (!gone) continue;
          await take[gone](one);
          one.features.delete(gone);
        }
        await compare();
      }
    } finally {
      await Promise.all([old.close(), fresh.close()]);
    }
  });
});
