// Telemetry ingest: the order of work, what is counted, what is charged, and the figures read back.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  testInstance,
  type Json,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";

const NOON = Date.UTC(2026, 10, 14, 12);
const DAY = 86_400_000;
const iso = (ms: number): string => new Date(ms).toISOString();

for (const back of backends) {
  describe(`ingest on ${back}`, () => {
    let r: TestInstance;
    let w: Workspace;
    let key: { id: string };
    let serial = 0;

    beforeAll(async () => {
      r = await testInstance(back, { clock: testClock(NOON), flags: { ingest_events_per_minute: "100" } });
    });
    afterAll(() => r[Symbol.asyncDispose]());
    beforeEach(async () => {
      r.clock.advance(60_000); // a fresh minute
      w = await r.workspace();
      key = await w.mint();
    });

    const event = (more: Json = {}): Json => ({
      ts: iso(r.clock.now()),
      project_id: w.project_id,
      env: "live",
      tenant_id: w.tenant_id,
      key_id: key.id,
      display_prefix: "kr_live_abcdef",
      method: "GET",
      path: "/v1/things/1",
      route: "/v1/things/:id",
      status: 200,
      duration_ms: 1.5,
      degraded: false,
      denial_reason: null,
      request_id: `r${++serial}`,
      ...more,
    });
    const batch = (events: unknown, more: Json = {}): Json => ({
      object: "ingest_batch",
      protocol_version: 1,
      node_id: "node-1",
      sdk: { name: "keyrack", version: "1.0.0" },
      events,
      ...more,
    });
    const send = (body: unknown, as: "sk_owner" | "sk_test" = "sk_owner"): Promise<Reply> =>
      w.call(as, "POST /v1/ingest/batch", body);
    const left = async (): Promise<string | null> => (await send(batch([]))).headers.get("ratelimit");
    const usage = async (id = key.id, days = 2): Promise<Json[]> =>
      (await w.call("sk_owner", `GET /v1/keys/${id}/usage?days=${days}`)).body.data as Json[];
    const seconds = (): number => Math.ceil((60_000 - (r.clock.now() % 60_000)) / 1000);

    it("counts a batch and answers 202 with what is left of the minute", async () => {
      const reply = await send(batch([event(), event({ status: 500 }), event({ status: 404 })], { events_dropped: 7 }));
      expect(reply.status).toBe(202);
      expect(reply.body).toEqual({ object: "ingest_receipt", accepted: 3, events_dropped_reported: 7 });
      expect(reply.headers.get("ratelimit")).toBe(`"ingest";r=97;t=${seconds()}`);
      expect(reply.headers.get("ratelimit-policy")).toBe(`"ingest";q=100;w=60`);
      expect((await usage())[1]).toMatchObject({ requests: 3, errors: 2 });
      expect(await w.actions()).toEqual(["api_key.created"]);
    });

    it("charges at least 1, and keeps the charge of a batch that is refused", async () => {
      expect((await send(batch([]))).headers.get("ratelimit")).toContain("r=99;");
      expectRefusal(await send(batch([event(), event({ status: 1 })])), 400, "invalid_request", "events[1].status");
      expectRefusal(await send(batch([event({ project_id: r.app.services.newId() })])), 400, "invalid_request");
      expectRefusal(await w.call("sk_owner", "POST /v1/ingest/batch", null, { raw: "{" }), 400, "invalid_request");
      expect(await left()).toContain(`r=${99 - 2 - 1 - 1 - 1};`);
      expect((await usage())[1]).toMatchObject({ requests: 0 });
    });

    it("does not charge what is too large or of another type", async () => {
      const big = await w.call("sk_owner", "POST /v1/ingest/batch", null, { raw: " ".repeat(5 * 1024 * 1024 + 1) });
      expectRefusal(big, 413, "payload_too_large");
      const text = { raw: "{}", headers: { "content-type": "text/plain" } };
      expectRefusal(await w.call("sk_owner", "POST /v1/ingest/batch", null, text), 415, "unsupported_media_type");
      expect(await left()).toContain("r=99;");
    });

    it("refuses a batch that does not fit what is left, without charging it, and takes the one that does", async () => {
      expect((await send(batch(Array.from({ length: 98 }, () => event())))).status).toBe(202);
      const over = await send(batch([event(), event(), event()]));
      expectRefusal(over, 429, "rate_limited");
      expect(over.headers.get("retry-after")).toBe(String(seconds()));
      expect(over.headers.get("ratelimit")).toBe(`"ingest";r=2;t=${seconds()}`);
      expect(over.headers.get("ratelimit-policy")).toBe(`"ingest";q=100;w=60`);
      expect((await send(batch([event(), event()]))).headers.get("ratelimit")).toContain("r=0;");
      // Exhausted: refused unread, whatever was sent.
      const unread = await w.call("sk_owner", "POST /v1/ingest/batch", null, {
        raw: "{",
        headers: { "content-type": "x" },
      });
      expectRefusal(unread, 429, "rate_limited");
      expect(unread.headers.get("ratelimit")).toContain("r=0;");
      expect((await usage())[1]).toMatchObject({ requests: 100 });
      r.clock.advance(60_000);
      expect(await left()).toContain("r=99;");
    });

    it("calls more events than the whole budget a 400, charged 1", async () => {
      const reply = await send(batch(Array.from({ length: 101 }, () => event())));
      expectRefusal(reply, 400, "invalid_request", "events");
      expect(await left()).toContain("r=98;");
    });

    it("keeps the budgets of workspaces apart", async () => {
      await send(batch(Array.from({ length: 100 }, () => event())));
      const other = await r.workspace();
      const reply = await other.call("sk_owner", "POST /v1/ingest/batch", batch([]));
      expect(reply.status).toBe(202);
    });

    it("counts an identical body once within 24 h and answers with the first receipt", async () => {
      const body = batch([event(), event()], { events_dropped: 3 });
      const first = await send(body);
      r.clock.advance(60_000);
      const again = await send(body);
      expect(again.status).toBe(202);
      expect(again.body).toEqual(first.body);
      expect((await usage())[1]).toMatchObject({ requests: 2 });
      r.clock.advance(DAY);
      expect((await send(body)).body).toEqual(first.body);
      const days = await usage(key.id, 3);
      expect(days.reduce((sum, day) => sum + (day.requests as number), 0)).toBe(4);
    });

    it.each([10, 100_000])(
      "counts identical bodies of %i bytes and more, sent at once, exactly once",
      async (bytes) => {
        const body = batch([event()], { unknown: "x".repeat(bytes) }); // a large one is hashed on another thread
        const replies = await Promise.all(Array.from({ length: 8 }, () => send(body)));
        expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 202));
        expect((await usage())[1]).toMatchObject({ requests: 1 });
      },
    );

    it("counts a repeated request_id inside a batch once, and not what is older than seven days", async () => {
      const now = r.clock.now();
      const reply = await send(
        batch([
          event({ request_id: "same" }),
          event({ request_id: "same", status: 500 }),
          event({ ts: iso(now - 7 * DAY) }),
          event({ ts: iso(now - 7 * DAY - 1) }),
        ]),
      );
      expect(reply.body.accepted).toBe(2);
      const days = await usage(key.id, 8);
      expect(days[0]).toMatchObject({ day: iso(now - 7 * DAY).slice(0, 10), requests: 1 });
      expect(days[7]).toMatchObject({ requests: 1, errors: 0 });
    });

    it("sets a clock that runs ahead back to now", async () => {
      const now = r.clock.now();
      await send(batch([event({ ts: iso(now + 5 * 60_000 + 1) }), event({ ts: iso(now + 5 * 60_000) })]));
      const { body } = await w.call("sk_owner", "GET /v1/usage/tenants");
      expect(body.data[0]).toMatchObject({
        request_count: 2,
        first_seen_at: iso(now),
        last_seen_at: iso(now + 300_000),
      });
    });

    it("reads timestamps with an offset, and in upper case ids", async () => {
      const upper = { key_id: key.id.toUpperCase(), tenant_id: w.tenant_id.toUpperCase() };
      const at = iso(r.clock.now()).replace("Z", "+00:00");
      expect((await send(batch([event({ ...upper, ts: at, project_id: w.project_id.toUpperCase() })]))).status).toBe(
        202,
      );
      expect((await usage())[1]).toMatchObject({ requests: 1 });
    });

    it("divides by the sample rate, the event's before the batch's, and rounds once at the end", async () => {
      const third = Array.from({ length: 3 }, () => event({ sample_rate: 0.3 }));
      await send(batch([...third, event({ status: 503 }), event({ sample_rate: 1 })], { sample_rate: 0.25 }));
      expect((await usage())[1]).toMatchObject({ requests: 15, errors: 4 });
      await send(batch([event({ sample_rate: 0.4 })]));
      await send(batch([event({ sample_rate: 0.4 })]));
      expect((await usage())[1]).toMatchObject({ requests: 20 });
    });

    it("moves a key's last use to its newest accepted event, at most once a minute", async () => {
      const now = r.clock.now();
      const used = async (): Promise<unknown> => (await w.call("sk_owner", `GET /v1/keys/${key.id}`)).body.last_used_at;
      expect(await used()).toBeNull();
      await send(batch([event({ ts: iso(now - 5000) }), event({ ts: iso(now - 9000) })]));
      expect(await used()).toBe(iso(now - 5000));
      await send(batch([event({ ts: iso(now) })]));
      expect(await used()).toBe(iso(now - 5000));
      r.clock.advance(60_000);
      await send(batch([event()]));
      expect(await used()).toBe(iso(now + 60_000));
      await send(batch([event({ ts: iso(now - DAY) })]));
      expect(await used()).toBe(iso(now + 60_000));
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

    it("names every failing path, at most 20, and echoes no value", async () => {
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
      ["events[0].degraded", { degraded: null }],
      ["events[0].request_id", { request_id: "" }],
      ["events[0].request_id", { request_id: "x".repeat(129) }],
      ["events[0].denial_reason", { denial_reason: "x".repeat(65) }],
      ["events[0].sample_rate", { sample_rate: 0 }],
      ["events[0].sample_rate", { sample_rate: 1.1 }],
      ["events[0].tenant_id", { tenant_id: 5 }],
      ["events[0].key_id", { key_id: "x" }],
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
        expectRefusal(await w.call("sk_owner", "POST /v1/ingest/batch", null, { raw }), 400, "invalid_request");
      });
    }

    it("refuses what is nested deeper than 32 levels, in fields that it ignores too", async () => {
      const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
      const text = JSON.stringify(batch([event(), event()]));
      const post = (raw: string) => w.call("sk_owner", "POST /v1/ingest/batch", null, { raw });
      const inBatch = (levels: number) => post(text.replace("{", `{"x":${nested(levels)},`));
      const inEvent = (levels: number) => post(text.replace('"method"', `"x":${nested(levels)},"method"`));
      for (const deep of [32, 100_000]) expectRefusal(await inBatch(deep), 400, "invalid_request");
      expectRefusal(await inEvent(30), 400, "invalid_request");
      expectRefusal(await post(nested(100_000)), 400, "invalid_request");
      expect((await usage())[1]).toMatchObject({ requests: 0 });
      expect([(await inBatch(31)).status, (await inEvent(29)).status]).toEqual([202, 202]);
      expect((await send(batch([event({ path: "[{".repeat(100) })]))).status).toBe(202);
    });

    it("refuses ids of another workspace, and keys that are not of that project, tenant or environment", async () => {
      const stranger = await r.workspace();
      const theirs = await stranger.mint();
      const project = (await w.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      const tenant = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "b" })).body.id;
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
      await w.call("sk_owner", `POST /v1/keys/${key.id}/revoke`);
      await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      expect((await send(batch([event()]))).status).toBe(202);
    });

    it("refuses a test key that reports live events, after charging it, and takes its test events", async () => {
      expectRefusal(await send(batch([event()]), "sk_test"), 403, "forbidden");
      const test = await w.mint({ env: "test" });
      expect((await send(batch([event({ env: "test", key_id: test.id })]), "sk_test")).status).toBe(202);
      expect(await left()).toContain("r=97;");
    });
  });
}
