// Telemetry ingest: the order of checks, what is counted and charged, and the figures read back.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { DAY, ingestFixture, iso } from "../../../harness/instances/ingest.ts";
import { expectRefusal, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`ingest on ${backend}`, () => {
    const { now, event, batch, send, left, usage, seconds } = ingestFixture(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    let key: { id: string };
    beforeEach(() => {
      ({ instance, workspace, key } = now());
    });

    it("counts a batch and responds 202 with the remaining budget", async () => {
      const reply = await send(batch([event(), event({ status: 500 }), event({ status: 404 })], { events_dropped: 7 }));
      expect(reply.status).toBe(202);
      expect(reply.body).toEqual({ object: "ingest_receipt", accepted: 3, events_dropped_reported: 7 });
      expect(reply.headers.get("ratelimit")).toBe(`"ingest";r=97;t=${seconds()}`);
      expect(reply.headers.get("ratelimit-policy")).toBe(`"ingest";q=100;w=60`);
      expect((await usage())[1]).toMatchObject({ requests: 3, errors: 2 });
      expect(await workspace.actions()).toEqual(["api_key.created"]);
    });

    it("charges at least 1, also for a rejected batch", async () => {
      expect((await send(batch([]))).headers.get("ratelimit")).toContain("r=99;");
      expectRefusal(await send(batch([event(), event({ status: 1 })])), 400, "invalid_request", "events[1].status");
      expectRefusal(await send(batch([event({ project_id: instance.app.services.newId() })])), 400, "invalid_request");
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/ingest/batch", null, { raw: "{" }),
        400,
        "invalid_request",
      );
      expect(await left()).toContain(`r=${99 - 2 - 1 - 1 - 1};`);
      expect((await usage())[1]).toMatchObject({ requests: 0 });
    });

    it("does not charge a body that is too large or of another media type", async () => {
      const big = await workspace.call("sk_owner", "POST /v1/ingest/batch", null, {
        raw: " ".repeat(5 * 1024 * 1024 + 1),
      });
      expectRefusal(big, 413, "payload_too_large");
      const text = { raw: "{}", headers: { "content-type": "text/plain" } };
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/ingest/batch", null, text),
        415,
        "unsupported_media_type",
      );
      expect(await left()).toContain("r=99;");
    });

    it("rejects a batch over the remaining budget without charging it, and accepts one that fits", async () => {
      expect((await send(batch(Array.from({ length: 98 }, () => event())))).status).toBe(202);
      const over = await send(batch([event(), event(), event()]));
      expectRefusal(over, 429, "rate_limited");
      expect(over.headers.get("retry-after")).toBe(String(seconds()));
      expect(over.headers.get("ratelimit")).toBe(`"ingest";r=2;t=${seconds()}`);
      expect(over.headers.get("ratelimit-policy")).toBe(`"ingest";q=100;w=60`);
      expect((await send(batch([event(), event()]))).headers.get("ratelimit")).toContain("r=0;");
      // Exhausted: rejected unread.
      const unread = await workspace.call("sk_owner", "POST /v1/ingest/batch", null, {
        raw: "{",
        headers: { "content-type": "x" },
      });
      expectRefusal(unread, 429, "rate_limited");
      expect(unread.headers.get("ratelimit")).toContain("r=0;");
      expect((await usage())[1]).toMatchObject({ requests: 100 });
      instance.clock.advance(60_000);
      expect(await left()).toContain("r=99;");
    });

    it("responds 400 to more events than the whole budget, charged 1", async () => {
      const reply = await send(batch(Array.from({ length: 101 }, () => event())));
      expectRefusal(reply, 400, "invalid_request", "events");
      expect(await left()).toContain("r=98;");
    });

    it("gives test credentials a quarter of the budget, and never refuses live because of it", async () => {
      const events = (n: number, env: "live" | "test") =>
        batch(Array.from({ length: n }, () => event({ env, key_id: null })));
      expect((await send(events(20, "test"), "sk_test")).headers.get("ratelimit")).toContain("r=5;");
      const over = await send(events(6, "test"), "sk_test");
      expectRefusal(over, 429, "rate_limited");
      expect(over.headers.get("ratelimit")).toContain("r=5;");
      expect(over.headers.get("ratelimit-policy")).toBe(`"ingest";q=25;w=60`);
      expect((await send(events(99, "live"))).headers.get("ratelimit")).toContain("r=1;");
      expectRefusal(await send(events(1, "test"), "sk_test"), 429, "rate_limited"); // live has left nothing
      expect((await send(events(1, "live"))).status).toBe(202);
      expectRefusal(await send(events(1, "live")), 429, "rate_limited");
      instance.clock.advance(60_000);
      expect((await send(events(25, "test"), "sk_test")).headers.get("ratelimit")).toContain("r=0;");
      expectRefusal(await send(events(26, "test"), "sk_test"), 429, "rate_limited");
    });

    it("keeps accepting after a batch that was charged by a clock a day ahead", async () => {
      const full = () => batch(Array.from({ length: 100 }, () => event()));
      const start = instance.clock.now();
      instance.clock.advance(DAY);
      expect((await send(full())).status).toBe(202);
      instance.clock.set(start);
      for (let minute = 0; minute < 3; minute++) {
        expect((await send(full())).headers.get("ratelimit")).toContain("r=0;");
        expectRefusal(await send(batch([event()])), 429, "rate_limited");
        instance.clock.advance(60_000);
      }
      instance.clock.set(start + DAY);
    });

    it("shares a minute with a process whose clock is minutes late", async () => {
      const start = instance.clock.now();
      const late = 9 * 60_000;
      instance.clock.advance(late);
      await send(batch(Array.from({ length: 60 }, () => event())));
      instance.clock.set(start);
      expect((await send(batch(Array.from({ length: 39 }, () => event())))).headers.get("ratelimit")).toContain("r=1;");
      expectRefusal(await send(batch([event(), event()])), 429, "rate_limited");
      expect((await send(batch([event()]))).status).toBe(202);
      expectRefusal(await send(batch([event()])), 429, "rate_limited");
      instance.clock.set(start + late);
    });

    it("keeps a budget per workspace", async () => {
      await send(batch(Array.from({ length: 100 }, () => event())));
      const other = await instance.workspace();
      const reply = await other.call("sk_owner", "POST /v1/ingest/batch", batch([]));
      expect(reply.status).toBe(202);
    });

    it("counts an identical body once within 24 h and returns the first receipt", async () => {
      const body = batch([event(), event()], { events_dropped: 3 });
      const first = await send(body);
      instance.clock.advance(60_000);
      const again = await send(body);
      expect(again.status).toBe(202);
      expect(again.body).toEqual(first.body);
      expect((await usage())[1]).toMatchObject({ requests: 2 });
      instance.clock.advance(DAY);
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
      const now = instance.clock.now();
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

    it("clamps timestamps in the future to now", async () => {
      const now = instance.clock.now();
      await send(batch([event({ ts: iso(now + 5 * 60_000 + 1) }), event({ ts: iso(now + 5 * 60_000) })]));
      const { body } = await workspace.call("sk_owner", "GET /v1/usage/tenants");
      expect(body.data[0]).toMatchObject({
        request_count: 2,
        first_seen_at: iso(now),
        last_seen_at: iso(now + 300_000),
      });
    });

    it("accepts timestamps with an offset and upper-case ids", async () => {
      const upper = { key_id: key.id.toUpperCase(), tenant_id: workspace.tenant_id.toUpperCase() };
      const at = iso(instance.clock.now()).replace("Z", "+00:00");
      expect(
        (await send(batch([event({ ...upper, ts: at, project_id: workspace.project_id.toUpperCase() })]))).status,
      ).toBe(202);
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
      const now = instance.clock.now();
      const used = async (): Promise<unknown> =>
        (await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body.last_used_at;
      expect(await used()).toBeNull();
      await send(batch([event({ ts: iso(now - 5000) }), event({ ts: iso(now - 9000) })]));
      expect(await used()).toBe(iso(now - 5000));
      await send(batch([event({ ts: iso(now) })]));
      expect(await used()).toBe(iso(now - 5000));
      instance.clock.advance(60_000);
      await send(batch([event()]));
      expect(await used()).toBe(iso(now + 60_000));
      await send(batch([event({ ts: iso(now - DAY) })]));
      expect(await used()).toBe(iso(now + 60_000));
    });
  });
}
