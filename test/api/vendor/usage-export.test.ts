// The usage export: lines that add up to the billing figures, with ids that importers can rely on.
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

const START = Date.UTC(2026, 9, 20, 12, 30);
const [HOUR, DAY] = [3_600_000, 86_400_000];
const iso = (ms: number): string => new Date(ms).toISOString();
const MONTH = "from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z";

for (const backend of runBackends) {
  describe(`usage export on ${backend}`, () => {
    const instance = sharedInstance(backend, { clock: testClock(START), leads: false });
    let workspace: Workspace;
    let key: { id: string };
    let serial = 0;
    beforeEach(async () => {
      instance.clock.set(START);
      workspace = await instance.workspace();
      key = await workspace.mint();
    });

    const send = async (...events: Json[]): Promise<void> => {
      const base = { ts: iso(START), project_id: workspace.project_id, tenant_id: workspace.tenant_id, key_id: key.id };
      const all = events.map((own) => telemetryEvent({ ...base, request_id: `r${++serial}`, ...own }));
      await workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(all));
    };
    const report = async (...events: Json[]): Promise<void> => {
      await send(...events);
      await foldJournal(instance.app.services);
    };
    const text = async (query: string, as: "sk_owner" | "sk_test" = "sk_owner") =>
      (await workspace.call(as, `GET /v1/usage/export?${query}`)).text;
    const rows = async (query: string): Promise<Json[]> =>
      (await text(query))
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Json);

    it("has a line for each tenant and day with traffic, and an id that can be computed", async () => {
      await report({}, { cost: 3 }, { denial_reason: "rate_limited", status: 429 }, { ts: iso(START - 2 * DAY) });
      await report({ tenant_id: null, key_id: null });
      const [first, second, ...more] = await rows(MONTH);
      expect(more).toEqual([]);
      const { project_id, tenant_id } = workspace;
      const identity = [workspace.id, "tenant", "day", "2026-10-20T00:00:00.000Z", project_id, "live", tenant_id, null];
      const id = createHash("sha256")
        .update(`keyrack-usage-v1\n${JSON.stringify(identity)}`)
        .digest("hex");
      expect(second).toEqual({
        object: "usage_row",
        id: id.slice(0, 32),
        bucket_start: "2026-10-20T00:00:00.000Z",
        bucket_end: "2026-10-21T00:00:00.000Z",
        project_id,
        project_slug: "api",
        env: "live",
        tenant_id,
        external_id: "customer",
        plan_id: null,
        key_id: null,
        requests: 3,
        allowed: 2,
        denied: 1,
        errors: 1,
        units: 4,
        final: false,
      });
      expect(first).toMatchObject({ bucket_start: "2026-10-18T00:00:00.000Z", requests: 1 });
      const [month] = (await workspace.call("sk_owner", "GET /v1/usage/tenants")).body.data;
      expect(Number(first?.allowed) + Number(second?.allowed)).toBe(month.request_count);
      instance.clock.advance(9 * DAY);
      expect((await rows(MONTH)).map(({ id: same, final }) => [same, final])).toEqual([
        [first?.id, true],
        [second?.id, true],
      ]);
    });

    it("calls a bucket final when all that was reported for it is counted", async () => {
      await report({});
      await send({});
      instance.clock.advance(9 * DAY);
      const finals = async () => (await rows(MONTH)).map(({ requests, final }) => [requests, final]);
      expect(await finals()).toEqual([[1, false]]);
      await foldJournal(instance.app.services);
      expect(await finals()).toEqual([[2, true]]);
    });

    it("is not said to be as of a time after a batch that it lacks", async () => {
      await report({});
      const { read } = instance.app.services.store;
      const first = read.first.bind(read);
      const reading = vi.spyOn(read, "first").mockImplementation(async (query) => {
        const row = await first(query);
        if (query.sql.includes("usage_journal")) {
          reading.mockRestore();
          instance.clock.advance(1_000);
          await send({});
          instance.clock.advance(1_000);
        }
        return row;
      });
      const { headers } = await workspace.call("sk_owner", `GET /v1/usage/export?${MONTH}`);
      expect(headers.get("usage-as-of")).toBe(iso(START));
    });

    it("lists keys by hour, and the requests of a tenant without a key", async () => {
      const other = await workspace.mint();
      await report({}, { key_id: other.id }, { key_id: null }, { ts: iso(START - HOUR) });
      const hours = await rows(`from=${iso(START - 90 * 60_000)}&to=${iso(START + 30 * 60_000)}&bucket=hour&by=key`);
      const ids = [key.id, other.id].toSorted();
      expect(hours.map(({ bucket_start, key_id }) => [bucket_start, key_id])).toEqual([
        ["2026-10-20T11:00:00.000Z", key.id],
        ["2026-10-20T12:00:00.000Z", null],
        ...ids.map((id) => ["2026-10-20T12:00:00.000Z", id]),
      ]);
    });

    it("reads a bucket in parts, each line once, by tenant, project and key", async () => {
      const groups = Array.from({ length: 2_500 }, (_, i) =>
        ["*", ""].map((name) => ({ name, tenant: `t${10_000 + i}` })),
      );
      const keys = Array.from({ length: 2_500 }, (_, i) => ({ name: `k${10_000 + i}`, tenant: "t10000" }));
      const all = [...groups.flat(), ...keys].map((group, i) => ({ ...group, id: 1_000_000_000 * ++serial + i }));
      const [day, hour] = [Math.floor(START / DAY), Math.floor(START / HOUR)];
      const values = (rows: string[][]): string => rows.map((row) => `(${row.join()})`).join();
      const quoted = (text: string): string => `'${text}'`;
      await instance.sql(
        `insert into usage_groups (id, workspace_id, kind, project_id, env, tenant, name) values ${values(
          all.map(({ id, tenant, name }) => [
            `${id}`,
            quoted(workspace.id),
            "'key'",
            quoted(workspace.project_id),
            "'live'",
            quoted(tenant),
            quoted(name),
          ]),
        )}`,
      );
      await instance.sql(
        `insert into usage_rollups (group_id, grain, start, outcome, requests, errors, units, detail) values ${values(
          all.flatMap(({ id }) =>
            [
              [`${id}`, "3", `${day}`],
              [`${id}`, "2", `${hour}`],
            ].map((row) => [...row, "'allowed'", "1", "0", "1", "''"]),
          ),
        )}`,
      );
      const read = vi.spyOn(instance.app.services.store, "exportUsage");
      const lines = await rows(`from=2026-10-20T00:00:00Z&to=2026-10-21T00:00:00Z&by=key`);
      expect(new Set(lines.map(({ id }) => id)).size).toBe(5_000);
      expect([lines.length, lines.filter(({ key_id }) => key_id === null).length]).toEqual([5_000, 2_500]);
      expect(lines.every(({ key_id, requests }) => requests === (key_id === null ? 2 : 1))).toBe(true);
      const order = lines.map(({ tenant_id, project_id, key_id }) => [tenant_id, project_id, key_id].join(" "));
      expect(order.join() === order.toSorted().join()).toBe(true);
      const sizes = await Promise.all(read.mock.results.map(async ({ value }) => (await value).text.length));
      expect([sizes.length > 2, Math.max(...sizes) < 2_000_000]).toEqual([true, true]);
      read.mockRestore();
    });

    it("writes CSV that no spreadsheet runs", async () => {
      const evil = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: '=cmd("x"), y' });
      await report({ tenant_id: evil.body.id, key_id: null });
      const reply = await workspace.call("sk_owner", `GET /v1/usage/export?${MONTH}&format=csv`);
      expect(reply.headers.get("content-type")).toContain("text/csv");
      expect(reply.headers.get("usage-as-of")).toBe(iso(START));
      const [head, line, end] = reply.text.split("\r\n");
      expect(head).toMatch(/^"id","bucket_start",.*"units","final"$/);
      expect(line).toContain('"\'=cmd(""x""), y"');
      expect(line).toMatch(/,1,1,0,0,1,false$/);
      expect(end).toBe("");
    });

    it("has the local days of a time zone", async () => {
      await report({ ts: iso(Date.UTC(2026, 9, 19, 19)) }, { ts: iso(Date.UTC(2026, 9, 19, 18)) });
      const days = await rows(
        "time_zone=Asia/Kathmandu&from=2026-10-18T18:15:00Z&to=2026-10-20T18:15:00Z", // midnight is 18:15 UTC
      );
      expect(days.map(({ bucket_start, requests }) => [bucket_start, requests])).toEqual([
        ["2026-10-18T18:15:00.000Z", 1],
        ["2026-10-19T18:15:00.000Z", 1],
      ]);
    });

    it("refuses bounds within a bucket, and is confined to environment, workspace and project", async () => {
      const test = await workspace.mint({ env: "test" });
      await report({}, { env: "test", key_id: test.id });
      for (const [query, path] of [
        [`from=${iso(START)}&to=2026-11-01T00:00:00Z`, "from"],
        [`from=2026-10-01T00:00:00Z&to=${iso(START)}`, "to"],
        ["from=2026-10-01T00:00:00Z&to=2026-10-01T00:00:00Z", "from"],
        ["from=2024-10-01T00:00:00Z&to=2026-10-01T00:00:00Z", "from"],
        [`${MONTH}&bucket=hour&time_zone=Asia/Tokyo`, "time_zone"],
        ["to=2026-10-01T00:00:00Z", "from"],
      ] as const)
        expectRefusal(await workspace.call("sk_owner", `GET /v1/usage/export?${query}`), 400, "invalid_request", path);
      expect(JSON.parse(await text(MONTH, "sk_test"))).toMatchObject({ env: "test", requests: 1 });
      expect((await workspace.call("sk_test", `GET /v1/usage/export?${MONTH}&env=live`)).status).toBe(403);
      const other = await instance.workspace();
      expect(
        (await other.call("sk_owner", `GET /v1/usage/export?${MONTH}&tenant_id=${workspace.tenant_id}`)).text,
      ).toBe("");
      expect(await text(`${MONTH}&project_id=${other.project_id}`)).toBe("");
    });

    it("refuses a fifth stream of a workspace until one of them ends", async () => {
      const running = instance.app.services.shares.of("exports");
      const owner = cellOwner(workspace.id, "live");
      for (let i = 0; i < 4; i++) running.take(owner);
      expectRefusal(await workspace.call("sk_owner", `GET /v1/usage/export?${MONTH}`), 429, "rate_limited");
      running.release(owner);
      const status = async () => (await workspace.call("sk_owner", `GET /v1/usage/export?${MONTH}`)).status;
      // Each of these ends its stream, so that the next one has room.
      for (let i = 0; i < 3; i++) await expect.poll(status).toBe(200);
      for (let i = 0; i < 3; i++) running.release(owner);
    });
  });
}
