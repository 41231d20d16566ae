// Validation of telemetry batches: every invalid field is named, foreign ids are rejected.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { ingestFixture } from "../../../harness/instances/ingest.ts";
import { expectRefusal, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`ingest validation on ${backend}`, () => {
    const { now, event, batch, send, left, usage } = ingestFixture(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    let key: { id: string };
    beforeEach(() => {
      ({ instance, workspace, key } = now());
    });

    it("tolerates unknown fields and absent nullable ones", async () => {
      const {
        tenant_id: _t,
        key_id: _k,
        display_prefix: _d,
        denial_reason: _r,
        ...bare
      } = event({ novel: { a: [1] } });
      expect((await send(batch([bare, event()], { novel: true }))).body.accepted).toBe(2);
    });

    it("names up to 20 failing paths and echoes no value", async () => {
      const bad = batch([event({ key_id: "SECRET-VALUE", ts: "yesterday" }), 7, event({ degraded: "no" })], {
        node_id: "a b",
      });
      const reply = await send(bad);
      expectRefusal(
        reply,
        400,
        "invalid_request",
        "node_id",
        "events[0].ts",
        "events[0].key_id",
        "events[1]",
        "events[2].degraded",
      );
      expect(reply.text).not.toContain("SECRET-VALUE");
      const many = await send(batch(Array.from({ length: 30 }, () => ({}))));
      expect(many.body.error.details).toHaveLength(20);
    });

    for (const [path, more] of [
      ["events[0].ts", { ts: 5 }],
      ["events[0].ts", { ts: "2026-13-01T00:00:00.000Z" }],
      ["events[0].project_id", { project_id: null }],
      ["events[0].project_id", { project_id: undefined, key_id: null, tenant_id: null }],
      ["events[0].env", { env: "prod" }],
      ["events[0].method", { method: "" }],
      ["events[0].method", { method: "x".repeat(17) }],
      ["events[0].path", { path: "x".repeat(2049) }],
      ["events[0].route", { route: undefined }],
      ["events[0].route", { route: "x".repeat(513) }],
      ["events[0].status", { status: 99 }],
      ["events[0].status", { status: 600 }],
      ["events[0].status", { status: 200.5 }],
      ["events[0].duration_ms", { duration_ms: -1 }],
      ["events[0].duration_ms", { duration_ms: "1" }],
      ["events[0].duration_ms", { duration_ms: 1e300 }],
      ["events[0].degraded", { degraded: null }],
      ["events[0].request_id", { request_id: "" }],
      ["events[0].request_id", { request_id: "x".repeat(129) }],
      ["events[0].denial_reason", { denial_reason: "x".repeat(65) }],
      ["events[0].sample_rate", { sample_rate: 0 }],
      ["events[0].sample_rate", { sample_rate: 1.1 }],
      ["events[0].tenant_id", { tenant_id: 5 }],
      ["events[0].key_id", { key_id: "x" }],
      ["events[0].path", { path: "/a\0" }],
      ["events[0].route", { route: "/\ud800" }],
      ["events[0].route", { route: "/\udc00\ud800" }],
      ["events[0].novel.a[1]", { novel: { a: [1, "\ud800"] } }],
      ["events[0].novel", { novel: { "\0": 1 } }],
    ] as const) {
      it(`refuses ${JSON.stringify(more).slice(0, 60)} at ${path}`, async () => {
        expectRefusal(await send(batch([event(more)])), 400, "invalid_request", path);
      });
    }

    for (const [path, body] of [
      ["object", { object: "batch" }],
      ["protocol_version", { protocol_version: 2 }],
      ["node_id", { node_id: undefined }],
      ["sdk", { sdk: null }],
      ["sdk.name", { sdk: { name: "", version: "1" } }],
      ["sdk.version", { sdk: { name: "a" } }],
      ["events", { events: {} }],
      ["events_dropped", { events_dropped: -1 }],
      ["sample_rate", { sample_rate: 0.00001 }],
    ] as const) {
      it(`refuses a batch with a bad ${path}`, async () => {
        expectRefusal(await send(batch([], body)), 400, "invalid_request", path);
      });
    }

    for (const raw of ["", "[]", "null", "5", "\ufeff{}", '{"events":']) {
      it(`refuses the body ${JSON.stringify(raw)}`, async () => {
        expectRefusal(await workspace.call("sk_owner", "POST /v1/ingest/batch", null, { raw }), 400, "invalid_request");
      });
    }

    it("charges a batch with a NUL or a lone surrogate by its events, and accepts other escapes", async () => {
      const escaped = (route: string): string =>
        JSON.stringify(batch([event({ route: "/" }), event()])).replace('"/"', route);
      const post = (raw: string) => workspace.call("sk_owner", "POST /v1/ingest/batch", null, { raw });
      for (const route of ['"\\u0000"', '"\\ud800"']) expectRefusal(await post(escaped(route)), 400, "invalid_request");
      expect(await left()).toContain("r=95;");
      expectRefusal(await post(escaped('"\0"')), 400, "invalid_request");
      expect((await post(escaped('"\\u00e9\\ud83d\\ude00\\\\u0000"'))).status).toBe(202);
    });

    it("rejects nesting deeper than 32 levels, also in ignored fields", async () => {
      const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
      const text = JSON.stringify(batch([event(), event()]));
      const post = (raw: string) => workspace.call("sk_owner", "POST /v1/ingest/batch", null, { raw });
      const inBatch = (levels: number) => post(text.replace("{", `{"x":${nested(levels)},`));
      const inEvent = (levels: number) => post(text.replace('"method"', `"x":${nested(levels)},"method"`));
      for (const deep of [32, 100_000]) expectRefusal(await inBatch(deep), 400, "invalid_request");
      expectRefusal(await inEvent(30), 400, "invalid_request");
      expectRefusal(await post(nested(100_000)), 400, "invalid_request");
      expect((await usage())[1]).toMatchObject({ requests: 0 });
      expect([(await inBatch(31)).status, (await inEvent(29)).status]).toEqual([202, 202]);
      expect((await send(batch([event({ path: "[{".repeat(100) })]))).status).toBe(202);
    });

    it("rejects ids of another workspace, and keys of another project, tenant or environment", async () => {
      const stranger = await instance.workspace();
      const theirs = await stranger.mint();
      const project = (await workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      const tenant = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "b" })).body.id;
      for (const [path, more] of [
        ["events[1].key_id", { key_id: theirs.id }],
        ["events[1].project_id", { key_id: null, project_id: stranger.project_id }],
        ["events[1].tenant_id", { key_id: null, tenant_id: stranger.tenant_id }],
        ["events[1].key_id", { project_id: project }],
        ["events[1].key_id", { tenant_id: tenant }],
        ["events[1].key_id", { env: "test" }],
      ] as const) {
        expectRefusal(await send(batch([event(), event(more)])), 400, "invalid_request", path);
      }
      expect((await usage())[1]).toMatchObject({ requests: 0 });
      expect((await send(batch([event({ key_id: null, project_id: project, tenant_id: tenant })]))).status).toBe(202);
    });

    it("still counts for revoked keys and deleted tenants", async () => {
      await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke`);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect((await send(batch([event()]))).status).toBe(202);
    });

    it("rejects live events from a test key, after charging it, and accepts its test events", async () => {
      expectRefusal(await send(batch([event()]), "sk_test"), 403, "forbidden");
      const test = await workspace.mint({ env: "test" });
      const accepted = await send(batch([event({ env: "test", key_id: test.id })]), "sk_test");
      expect(accepted.status).toBe(202);
      expect(accepted.headers.get("ratelimit")).toContain("r=23;"); // of a quarter of the budget
      expect(await left()).toContain("r=99;"); // live has all of it
    });
  });
}
