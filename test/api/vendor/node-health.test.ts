// What the fleet shows of a node's health: the library that it runs, and whether it decided requests degraded lately.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const SDK = "@keyrack/sdk/1.2.3";

for (const back of backends) {
  describe(`the health of nodes on ${back}`, () => {
    const r = sharedInstance(back);
    let serial = 0;

    type As = "sk_owner" | "sk_test";
    type Poll = { node?: string; sdk?: string; as?: As; more?: string };
    const poll = async (w: Workspace, { node = "n", sdk, as = "sk_owner", more = "" }: Poll = {}) => {
      const route = `GET /v1/policy/delta?project_id=${w.project_id}&node=${node}&since=1${more}`;
      await w.call(as, route, undefined, { headers: sdk === undefined ? {} : { "keyrack-sdk": sdk } });
      await r.app.services.nodes.flushed();
    };
    const fleet = async (w: Workspace, more = "", as: As = "sk_owner") =>
      (await w.call(as, `GET /v1/nodes?view=fleet${more}`)).body as { data: Json[]; counts: Json };
    const only = async (w: Workspace): Promise<Json> => (await fleet(w)).data[0] ?? {};
    const report = async (
      w: Workspace,
      event: Json,
      { node = "n", as = "sk_owner" }: { node?: string; as?: As } = {},
    ) => {
      const own = { ts: new Date(r.clock.now()).toISOString(), project_id: w.project_id, request_id: `r${++serial}` };
      const batch = telemetryBatch([telemetryEvent({ ...own, ...event })], { node_id: node });
      const { status } = await w.call(as, "POST /v1/ingest/batch", batch);
      return { status, again: () => w.call(as, "POST /v1/ingest/batch", batch) };
    };
    const degradedOf = async (w: Workspace, as: As = "sk_owner"): Promise<Json> =>
      Object.fromEntries(
        (await fleet(w, "", as)).data.map((n) => [`${String(n.node_id)} ${String(n.env_scope)}`, n.degraded]),
      );

    it("shows the library that a node's calls name, and null for none or a malformed one", async () => {
      const w = await r.workspace();
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
        await poll(w, sdk === undefined ? {} : { sdk });
        expect((await only(w)).sdk, sdk).toEqual(shown);
      }
      await w.call("sk_owner", `GET /v1/policy/snapshot?project_id=${w.project_id}&node=s`, undefined, {
        headers: { "keyrack-sdk": SDK },
      });
      await r.app.services.nodes.flushed();
      expect((await fleet(w)).data[1]).toMatchObject({ node_id: "s", sdk: { version: "1.2.3" } });
    });

    it("writes a report with another library at once, and one without news as rarely as before", async () => {
      const w = await r.workspace();
      const since = new Date(r.clock.now()).toISOString();
      await poll(w, { sdk: SDK });
      r.clock.advance(1_000);
      await poll(w, { sdk: SDK });
      expect(await only(w)).toMatchObject({ first_seen_at: since, last_seen_at: since });
      await poll(w, { sdk: "@keyrack/sdk/1.2.4" });
      const now = new Date(r.clock.now()).toISOString();
      expect(await only(w)).toMatchObject({ sdk: { version: "1.2.4" }, first_seen_at: since, last_seen_at: now });
      await poll(w, { more: "&leaving=true" });
      expect((await fleet(w)).data).toEqual([]);
    });

    it("shows neither without view=fleet", async () => {
      const w = await r.workspace();
      await poll(w, { sdk: SDK });
      const { body } = await w.call("sk_owner", `GET /v1/nodes?project_id=${w.project_id}`);
      expect(["sdk", "degraded", "first_seen_at"].filter((name) => name in body.data[0])).toEqual([]);
      expectRefusal(
        await w.call("sk_owner", `GET /v1/nodes?project_id=${w.project_id}&state=degraded`),
        400,
        "invalid_request",
      );
    });

    it("marks a node degraded for five minutes after it reported a degraded decision", async () => {
      const w = await r.workspace();
      for (const node of ["n", "other"]) await poll(w, { node });
      await report(w, { degraded: false });
      expect(await degradedOf(w)).toEqual({ "n all": false, "other all": false });
      const { status, again } = await report(w, { degraded: true });
      expect(status).toBe(202);
      expect(await degradedOf(w)).toEqual({ "n all": true, "other all": false });
      const { data, counts } = await fleet(w, "&state=degraded");
      expect([data.map(({ node_id }) => node_id), counts.degraded, counts.total]).toEqual([["n"], 1, 2]);
      r.clock.advance(5 * MINUTE_MS);
      expect(await degradedOf(w)).toEqual({ "n all": false, "other all": false });
      expect((await fleet(w, "&state=degraded")).data).toEqual([]);
      // A batch that was counted before is no news.
      await again();
      expect((await degradedOf(w))["n all"]).toBe(false);
      // A report of an unregistered node registers none, and one older than a week is not accepted.
      await report(w, { degraded: true }, { node: "unknown" });
      await report(w, { degraded: true, ts: new Date(r.clock.now() - 8 * 86_400_000).toISOString() });
      expect(await degradedOf(w)).toEqual({ "n all": false, "other all": false });
    });

    it("writes the mark at most once a minute, and later reports of the registry keep it", async () => {
      const w = await r.workspace();
      await poll(w);
      const marked = async () => (await r.sql("select * from policy_nodes where project_id = $1", [w.project_id]))[0];
      const first = r.clock.now();
      await report(w, { degraded: true });
      r.clock.advance(MINUTE_MS - 1);
      await report(w, { degraded: true });
      await poll(w, { sdk: SDK });
      expect(Number((await marked())?.degraded_at)).toBe(first);
      r.clock.advance(1);
      await report(w, { degraded: true });
      expect(Number((await marked())?.degraded_at)).toBe(first + MINUTE_MS);
    });

    it("lets a test credential mark nodes of test keys only", async () => {
      const w = await r.workspace();
      await poll(w);
      await poll(w, { more: "&env=live" });
      await poll(w, { as: "sk_test" });
      await report(w, { degraded: true, env: "test" }, { as: "sk_test" });
      expect(await degradedOf(w)).toEqual({ "n all": false, "n live": false, "n test": true });
      await report(w, { degraded: true });
      expect(await degradedOf(w)).toEqual({ "n all": true, "n live": true, "n test": true });
      expect(await degradedOf(w, "sk_test")).toEqual({ "n test": true });
      const elsewhere = await r.workspace();
      expect((await fleet(elsewhere)).counts.degraded).toBe(0);
    });
  });
}
