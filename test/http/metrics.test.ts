// /metrics: counts a scripted load correctly and exports every metric that the dashboard and the alerts use; promtool
// accepts all three.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { startInstance } from "../../src/server/start.ts";
import { applyKeyPolicies } from "../../src/domain/key-policy/job.ts";
import { NO_BACKUPS } from "../../src/domain/health/state.ts";
import { loadSettings } from "../../src/config/load.ts";
import { silentLog } from "../../src/platform/log.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";
import { team } from "../../harness/instances/people.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { sharedInstance, testInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const path = (name: string): string => fileURLToPath(new URL(`../../docs/monitoring/${name}`, import.meta.url));
const METRIC = /\b(keyrack|process)_[a-z0-9_]+/g;

/** Every metric that an expression uses, except those that Prometheus adds itself. */
function named(): string[] {
  const alerts = readFileSync(path("alerts.yml"), "utf8");
  const expressions = [...alerts.matchAll(/expr: (>\n(?: {10}.*\n)+|.*\n)/g)].map(([, text = ""]) => text);
  const { panels } = JSON.parse(readFileSync(path("dashboard.json"), "utf8")) as {
    panels: { targets: { expr: string }[] }[];
  };
  for (const { targets } of panels) expressions.push(...targets.map(({ expr }) => expr));
  expect(expressions.length).toBeGreaterThan(40);
  return [...new Set(expressions.flatMap((text) => text.match(METRIC) ?? []))];
}

type Samples = Map<string, number>;

function parse(text: string): Samples {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}

const promtool = (args: string[], input = "") => spawnSync("promtool", args, { input, encoding: "utf8" });
const hasPromtool = hasTool("promtool", "alert rules and metrics in promtool");

for (const backend of runBackends) {
  describe(`/metrics on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { metrics: "127.0.0.1:0" } });
    let workspace: Workspace;
    beforeAll(async () => {
      workspace = await instance.workspace();
      const at = instance.clock.now();
      instance.app.services.backups = async () => ({
        lastSuccessAt: at - 60_000,
        restoreTest: { lastRunAt: at - 120_000, pass: true, backupId: "b" },
      });
    });
    const scrape = async (): Promise<Samples> => parse(await (await fetch(instance.app.metricsUrl ?? "")).text());

    it("counts log lines that were dropped because their reader is slow", async () => {
      const { log } = instance.app.services;
      const dropped = async () => (await scrape()).get("keyrack_log_lines_dropped_total");
      expect(await dropped()).toBe(0);
      Object.defineProperty(log, "dropped", { value: 7, configurable: true });
      expect(await dropped()).toBe(7);
      Reflect.deleteProperty(log, "dropped");
    });

    it("counts a request by the status it was sent, not by that before the disk failed", async () => {
      const name = (status: number) => `keyrack_http_requests_total{method="GET",route="/v1/keys",status="${status}"}`;
      const before = await scrape();
      const lost = vi
        .spyOn(instance.app.services.store, "durable")
        .mockImplementation(() => Promise.reject(new Error("EIO")));
      expect((await workspace.call("sk_owner", "GET /v1/keys")).status).toBe(503);
      lost.mockRestore();
      const after = await scrape();
      expect([after.get(name(503)), after.get(name(200))]).toEqual([1, before.get(name(200))]);
    });

    it("counts requests by route and status, mutations, commits, caches, nodes and the audit head", async () => {
      const before = await scrape();
      for (let i = 0; i < 3; i++) await workspace.mint();
      await workspace.call("sk_owner", "POST /v1/keys", { env: "nonsense" });
      const poll = `GET /v1/policy/delta?project_id=${workspace.project_id}&since=0&node=n1`;
      for (let i = 0; i < 4; i++) expect((await workspace.call("sk_owner", poll)).status).toBe(200);
      await instance.app.services.nodes.flushed();
      const after = await scrape();
      const grew = (name: string): number => (after.get(name) ?? 0) - (before.get(name) ?? 0);
      const keys = 'method="POST",route="/v1/keys"';
      expect(grew(`keyrack_http_requests_total{${keys},status="201"}`)).toBe(3);
      expect(grew(`keyrack_http_requests_total{${keys},status="400"}`)).toBe(1);
      expect(grew(`keyrack_http_request_duration_seconds_count{${keys},status="2xx"}`)).toBe(3);
      expect(grew(`keyrack_http_request_duration_seconds_bucket{${keys},status="2xx",le="+Inf"}`)).toBe(3);
      expect(grew('keyrack_mutations_total{action="api_key.created"}')).toBe(3);
      expect(grew("keyrack_audit_rows")).toBe(3);
      expect(grew("keyrack_commits_total")).toBeGreaterThanOrEqual(3);
      expect(grew("keyrack_commit_size_count")).toBe(grew("keyrack_commits_total"));
      // Three polls, and the first one again after the wait for its node's row.
      expect(grew('keyrack_cache_hits_total{cache="secret_keys"}')).toBe(4);
      expect(grew('keyrack_cache_misses_total{cache="secret_keys"}')).toBe(1);
      expect(grew('keyrack_cache_hits_total{cache="policy_pages"}')).toBe(3);
      expect(after.get("keyrack_nodes_live")).toBe(1);
      expect(after.get("keyrack_database_up")).toBe(1);
      expect(after.get("keyrack_backup_age_seconds")).toBe(60);
      expect(after.get('keyrack_ratelimit_store{store="memory"}')).toBe(1);
    });

    it("counts keys that were looked up by outcome, a foreign one as unknown", async () => {
      const before = await scrape();
      const [admitted, refused] = [await workspace.mint(), await workspace.mint()];
      await workspace.call("sk_owner", `POST /v1/keys/${refused.id}/revoke`, {});
      const foreign = await (await instance.workspace()).mint();
      for (const key of [admitted.key, refused.key, foreign.key, "nonsense", "krsk_live_nonsense"])
        expect((await workspace.call("sk_owner", "POST /v1/keys/lookup", { key })).status).toBe(200);
      const after = await scrape();
      const grew = ["admitted", "refused", "unknown", "other"].map((outcome) => {
        const name = `keyrack_key_lookups_total{outcome="${outcome}"}`;
        return (after.get(name) ?? 0) - (before.get(name) ?? 0);
      });
      expect(grew).toEqual([1, 1, 1, 2]);
    });

    it("counts requests of holders by outcome, nodes that lack a capability, and projects with a blocked key policy", async () => {
      const own = await instance.workspace();
      const [key, disabled] = [await own.mint(), await own.mint()];
      await own.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const poll = async (more: string) => {
        for (const node of ["node=old", "node=new&caps=disabled"])
          await own.call("sk_owner", `GET /v1/policy/delta?project_id=${own.project_id}&since=1&${node}${more}`);
        await instance.app.services.nodes.flushed();
      };
      await poll("");
      await own.call("sk_owner", `PATCH /v1/projects/${own.project_id}`, { key_policy: { idle_revoke_days: 7 } });
      await applyKeyPolicies(instance.app.services);
      const before = await scrape();
      for (const bearer of [key.key, disabled.key, "kr_live_x"]) await instance.call(bearer, "GET /v1/self");
      const after = await scrape();
      const grew = ["ok", "refused", "invalid"].map((outcome) => {
        const name = `keyrack_holder_requests_total{outcome="${outcome}"}`;
        return (after.get(name) ?? 0) - (before.get(name) ?? 0);
      });
      expect(grew).toEqual([1, 1, 1]);
      expect([after.get("keyrack_nodes_missing_caps"), after.get("keyrack_key_policy_blocked")]).toEqual([1, 1]);
      await poll("&leaving=true");
    });

    it("exports every metric that the dashboard and the alerts use", async () => {
      const off = await scrape();
      for (const name of ["backup", "restore_test"]) expect(off.has(`keyrack_${name}_interval_seconds`)).toBe(false);
      Object.assign(instance.app.services.settings, { backup_every: 86_400_000, restore_test_every: 604_800_000 });
      const exported = new Set([...(await scrape()).keys()].map((name) => name.split("{", 1)[0]));
      Object.assign(instance.app.services.settings, { backup_every: null, restore_test_every: null });
      expect(named().filter((name) => !exported.has(name))).toEqual([]);
    });

    it("counts broken audit chains, and says whether backups fail", async () => {
      const read = async (): Promise<unknown[]> => {
        const all = await scrape();
        return [all.get("keyrack_audit_chains_broken"), all.get("keyrack_backup_failing")];
      };
      expect(await read()).toEqual([0, 0]);
      const backups = instance.app.services.backups;
      instance.app.services.backups = async () => ({ ...NO_BACKUPS, lastSuccessAt: 1, failing: true });
      const marks = [["a", null] as const, ["b", "'hash_mismatch'"] as const];
      for (const [id, reason] of marks)
        await instance.sql(`insert into audit_marks values ('${id}', 1, 'h', '[]', 1, ${reason && 1}, ${reason}, 's')`);
      expect(await read()).toEqual([1, 1]);
      await instance.sql("delete from audit_marks");
      instance.app.services.backups = async () => NO_BACKUPS;
      expect(await read()).toEqual([0, undefined]); // off, and none was made
      if (backups) instance.app.services.backups = backups;
    });

    it("serves OpenMetrics on request, and reveals no id, name or key", async () => {
      const headers = { accept: "application/openmetrics-text;version=1.0.0,text/plain;q=0.5" };
      const reply = await fetch(instance.app.metricsUrl ?? "", { headers });
      const text = await reply.text();
      expect(reply.headers.get("content-type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
      expect(text.includes("\n# TYPE keyrack_http_requests counter\n")).toBe(true);
      expect(text.endsWith("\n# EOF\n")).toBe(true);
      for (const secret of [
        workspace.id,
        workspace.slug,
        workspace.project_id,
        workspace.tenant_id,
        workspace.keys.sk_owner,
      ])
        expect(text.includes(secret), secret).toBe(false);
    });

    it("reports that the database is unavailable instead of failing", async () => {
      const broken = vi.spyOn(instance.app.services.store.read, "first").mockRejectedValue(new Error("gone"));
      const away = await scrape();
      broken.mockRestore();
      expect([away.get("keyrack_database_up"), away.has("keyrack_outbox_queued")]).toEqual([0, false]);
      expect(away.get("keyrack_commits_total")).toBeGreaterThan(0);
    });

    it("has nothing but /metrics, and the public listener has no /metrics", async () => {
      const root = (instance.app.metricsUrl ?? "").replace("/metrics", "");
      expect((await fetch(`${root}/v1/workspace`)).status).toBe(404);
      const posted = await fetch(`${root}/metrics`, { method: "POST" });
      expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
      for (const { headers } of [posted, await fetch(`${root}/metrics`)])
        expect([headers.get("x-content-type-options"), headers.get("cache-control")]).toEqual(["nosniff", "no-store"]);
      expect((await instance.call(null, "GET /metrics")).status).toBe(404);
    });

    it("reports whether setup is open: until the server has an owner", async () => {
      await using own = await testInstance(backend, { flags: { metrics: "127.0.0.1:0" } });
      const isOpen = async () => parse(await (await fetch(own.app.metricsUrl ?? "")).text()).get("keyrack_setup_open");
      expect(await isOpen()).toBe(1);
      await team(own);
      own.clock.advance(2_000);
      expect(await isOpen()).toBe(0);
    });

    it("counts nodes by state", async () => {
      const { policy_version: since } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`))
        .body;
      await workspace.call(
        "sk_owner",
        `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}&node=n1`,
      );
      await instance.app.services.nodes.flushed();
      await workspace.mint();
      const own = {
        ts: new Date(instance.clock.now()).toISOString(),
        project_id: workspace.project_id,
        request_id: "degraded",
      };
      const batch = telemetryBatch([telemetryEvent({ ...own, degraded: true })], { node_id: "n1" });
      expect((await workspace.call("sk_owner", "POST /v1/ingest/batch", batch)).status).toBe(202);
      for (const [ms, counts] of [
        [0, [1, 0, 1, 0]],
        [20_000, [1, 1, 1, 0]],
        [180_000, [0, 0, 1, 1]],
        [100_000, [0, 0, 0, 1]],
      ] as const) {
        instance.clock.advance(ms);
        instance.app.services.nodes.presentAt = instance.clock.now(); // nodes could have reported all the time
        const now = await scrape();
        const states = ["live", "late", "degraded", "silent"].map((state) =>
          now.get(`keyrack_nodes{state="${state}"}`),
        );
        expect(states).toEqual(counts);
      }
    });

    it.runIf(hasPromtool)("is accepted by promtool", async () => {
      const text = await (await fetch(instance.app.metricsUrl ?? "")).text();
      const { status, stdout, stderr } = promtool(["check", "metrics"], text);
      expect([stdout + stderr, status]).toEqual(["", 0]);
    });
  });
}

describe("monitoring", () => {
  it("documents every metric, and no other, and uses none that is deprecated", async () => {
    await using instance = await testInstance("sqlite", { flags: { metrics: "127.0.0.1:0" } });
    const text = await (await fetch(instance.app.metricsUrl ?? "")).text();
    const exposed = [...text.matchAll(/^# TYPE (keyrack_\w+)/gm)].map(([, name = ""]) => name);
    const deprecated = [...text.matchAll(/^# HELP (\w+) Deprecated: /gm)].map(([, name = ""]) => name);
    expect(deprecated).toEqual(["keyrack_event_loop_lag_seconds"]);
    expect(deprecated.filter((name) => named().includes(name))).toEqual([]);
    const page = readFileSync(new URL("../../docs/monitoring/README.md", import.meta.url), "utf8");
    const documented = new Set([...page.matchAll(/`(keyrack_\w+)/g)].map(([, name = ""]) => name));
    expect(exposed.filter((name) => !documented.has(name))).toEqual([]);
    const source = ["domain/health/metrics.ts", "http/metrics.ts"]
      .map((file) => readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8"))
      .join("");
    const isInSource = (name: string): boolean => source.includes(`"${name.replace(/_total$/, "")}"`);
    expect([...documented].filter((name) => !exposed.includes(name) && !isInSource(name))).toEqual([]);
  });

  it.runIf(hasPromtool)("has alert rules that promtool accepts", () => {
    const { status, stdout, stderr } = promtool(["check", "rules", path("alerts.yml")]);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
    expect(status).toBe(0);
  });

  it("prevents the start if its port is taken, and leaves nothing listening", async () => {
    using at = tempDir();
    await using instance = await testInstance("sqlite", { flags: { metrics: "127.0.0.1:0" } });
    const taken = new URL(instance.app.metricsUrl ?? "").host;
    const { settings } = loadSettings({ env: {}, flags: { data_dir: at.dir, port: "0", metrics: taken }, cwd: at.dir });
    await expect(startInstance({ settings, log: silentLog })).rejects.toMatchObject({
      exitCode: 1, // systemd starts the server again: the port may be free by then
      message: `Port ${new URL(`http://${taken}`).port} on 127.0.0.1 is already in use. Stop the other program, or set KEYRACK_METRICS.`,
    });
  });

  it("is off by default", async () => {
    await using instance = await testInstance("sqlite");
    expect(instance.app.metricsUrl).toBeNull();
  });
});
