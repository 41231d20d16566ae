// What the fleet shows of a node's health: the library that it runs, and whether it decided requests degraded lately.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const SDK = "@keyrack/sdk/1.2.3";

for (const backend of runBackends) {
  describe(`the health of nodes on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let serial = 0;

    type As = "sk_owner" | "sk_test";
    type Poll = { node?: string; sdk?: string; as?: As; more?: string };
    const poll = async (workspace: Workspace, { node = "n", sdk, as = "sk_owner", more = "" }: Poll = {}) => {
      const route = `GET /v1/policy/delta?project_id=${workspace.project_id}&node=${node}&since=1${more}`;
      await workspace.call(as, route, undefined, { headers: sdk === undefined ? {} : { "keyrack-sdk": sdk } });
      await instance.app.services.nodes.flushed();
    };
    const fleet = async (workspace: Workspace, more = "", as: As = "sk_owner") =>
      (await workspace.call(as, `GET /v1/nodes?view=fleet${more}`)).body as { data: Json[]; counts: Json };
    const only = async (workspace: Workspace): Promise<Json> => (await fleet(workspace)).data[0] ?? {};
    const report = async (
      workspace: Workspace,
      event: Json,
      { node = "n", as = "sk_owner" }: { node?: string; as?: As } = {},
    ) => {
      const own = {
        ts: new Date(instance.clock.now()).toISOString(),
        project_id: workspace.project_id,
        request_id: `r${++serial}`,
      };
      const batch = telemetryBatch([telemetryEvent({ ...own, ...event })], { node_id: node });
      const { status } = await workspace.call(as, "POST /v1/ingest/batch", batch);
      return { status, again: () => workspace.call(as, "POST /v1/ingest/batch", batch) };
    };
    const degradedOf = async (workspace: Workspace, as: As = "sk_owner"): Promise<Json> =>
      Object.fromEntries(
        (await fleet(workspace, "", as)).data.map((n) => [`${String(n.node_id)} ${String(n.env_scope)}`, n.degraded]),
      );

    it("shows the library that a node's calls name, and null for none or a malformed one", async () => {
      const workspace = await instance.workspace();
      const cases = [
        [undefined, null],
        [SDK, { name: "@keyrack/sdk", version: "1.2.3" }],
        ["no-slash", null],
        ["a/1", { name: "a", version: "1" }],
        ["a/", null],
        ["/1", null],
        ["two words/1", null],
        [`${"n".repeat(64)}/${"v".repeat(64)}`, { name: "n".repeat(64), version: "v".repeat(64) }],
        [`${"n".repeat(65)}/1`, null],
        [`n/${"v".repeat(65)}`, null],
        ["go+kr/1.0.0-rc.1+5", { name: "go+kr", version: "1.0.0-rc.1+5" }],
      ] as const;
      for (const [sdk, shown] of cases) {
        await poll(workspace, sdk === undefined ? {} : { sdk });
        expect((await only(workspace)).sdk, sdk).toEqual(shown);
      }
      await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${workspace.project_id}&node=s`, undefined, {
        headers: { "keyrack-sdk": SDK },
      });
      await instance.app.services.nodes.flushed();
      expect((await fleet(workspace)).data[1]).toMatchObject({ node_id: "s", sdk: { version: "1.2.3" } });
    });

    it("writes a report with another library at once, and one without news as rarely as before", async () => {
      const workspace = await instance.workspace();
      const since = new Date(instance.clock.now()).toISOString();
      await poll(workspace, { sdk: SDK });
      instance.clock.advance(1_000);
      await poll(workspace, { sdk: SDK });
      expect(await only(workspace)).toMatchObject({ first_seen_at: since, last_seen_at: since });
      await poll(workspace, { sdk: "@keyrack/sdk/1.2.4" });
      const now = new Date(instance.clock.now()).toISOString();
      expect(await only(workspace)).toMatchObject({
        sdk: { version: "1.2.4" },
        first_seen_at: since,
        last_seen_at: now,
      });
      await poll(workspace, { more: "&leaving=true" });
      expect((await fleet(workspace)).data).toEqual([]);
    });

    it("shows neither without view=fleet", async () => {
      const workspace = await instance.workspace();
      await poll(workspace, { sdk: SDK });
      const { body } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
      expect(["sdk", "degraded", "first_seen_at"].filter((name) => name in body.data[0])).toEqual([]);
      expectRefusal(
        await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}&state=degraded`),
        400,
        "invalid_request",
      );
    });

    it("marks a node degraded for five minutes after it reported a degraded decision", async () => {
      const workspace = await instance.workspace();
      for (const node of ["n", "other"]) await poll(workspace, { node });
      await report(workspace, { degraded: false });
      expect(await degradedOf(workspace)).toEqual({ "n all": false, "other all": false });
      const { status, again } = await report(workspace, { degraded: true });
      expect(status).toBe(202);
      expect(await degradedOf(workspace)).toEqual({ "n all": true, "other all": false });
      const { data, counts } = await fleet(workspace, "&state=degraded");
      expect([data.map(({ node_id }) => node_id), counts.degraded, counts.total]).toEqual([["n"], 1, 2]);
      instance.clock.advance(5 * MINUTE_MS);
      expect(await degradedOf(workspace)).toEqual({ "n all": false, "other all": false });
      expect((await fleet(workspace, "&state=degraded")).data).toEqual([]);
      // A batch that was counted before is no news.
      await again();
      expect((await degradedOf(workspace))["n all"]).toBe(false);
      // A report of an unregistered node registers none, and one older than a week is not accepted.
      await report(workspace, { degraded: true }, { node: "unknown" });
      await report(workspace, { degraded: true, ts: new Date(instance.clock.now() - 8 * 86_400_000).toISOString() });
      expect(await degradedOf(workspace)).toEqual({ "n all": false, "other all": false });
    });

    it("writes the mark at most once a minute, and later reports of the registry keep it", async () => {
      const workspace = await instance.workspace();
      await poll(workspace);
      const marked = async () =>
        (await instance.sql("select * from policy_nodes where project_id = $1", [workspace.project_id]))[0];
      const first = instance.clock.now();
      await report(workspace, { degraded: true });
      instance.clock.advance(MINUTE_MS - 1);
      await report(workspace, { degraded: true });
      await poll(workspace, { sdk: SDK });
      expect(Number((await marked())?.degraded_at)).toBe(first);
      instance.clock.advance(1);
      await report(workspace, { degraded: true });
      expect(Number((await marked())?.degraded_at)).toBe(first + MINUTE_MS);
    });

    it("lets a test credential mark nodes of test keys only", async () => {
      const workspace = await instance.workspace();
      await poll(workspace);
      await poll(workspace, { more: "&env=live" });
      await poll(workspace, { as: "sk_test" });
      await report(workspace, { degraded: true, env: "test" }, { as: "sk_test" });
      expect(await degradedOf(workspace)).toEqual({ "n all": false, "n live": false, "n test": true });
      await report(workspace, { degraded: true });
      expect(await degradedOf(workspace)).toEqual({ "n all": true, "n live": true, "n test": true });
      expect(await degradedOf(workspace, "sk_test")).toEqual({ "n test": true });
      const elsewhere = await instance.workspace();
      expect((await fleet(elsewhere)).counts.degraded).toBe(0);
    });
  });
}
