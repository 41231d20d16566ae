// idempotent() on every framework: one run per key, the same response on retry, and no run in doubt.

import { createHash } from "node:crypto";
import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { apps, type Pay } from "../../../harness/sdk/apps.ts";
import { turns, until } from "../../../harness/waiting.ts";
import { startTestKeyrack, type TestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

const sha = (text: string) => createHash("sha256").update(text).digest("hex");

/** The application of a framework with a key that it knows. */
async function start(make: (typeof apps)[string], pay: Pay) {
  const instance = await startTestKeyrack();
  const app = await make(instance.keyrack, pay);
  const mint = async (tenant_id?: string): Promise<string> => {
    const { key } = instance.plane.mint(tenant_id === undefined ? {} : { tenant_id });
    await until(() => instance.keyrack.verify(key).ok);
    return key;
  };
  const own = await mint();
  const post = (idempotencyKey: string | null, body = '{"amount":5}', query = "", key = own) =>
    fetch(`${app.url}/pay${query}`, {
      method: "POST",
      body,
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        ...(idempotencyKey !== null && { "idempotency-key": idempotencyKey }),
      },
    });
  return {
    instance,
    app,
    key: own,
    mint,
    post,
    async [Symbol.asyncDispose]() {
      await app.close();
      await instance[Symbol.asyncDispose]();
    },
  };
}

for (const [name, make] of Object.entries(apps)) {
  describe(`idempotent on ${name}`, () => {
    let instance: TestKeyrack;
    let server: Awaited<ReturnType<typeof start>>;
    let runs = 0;
    let pay: Pay;
    beforeEach(async () => {
      runs = 0;
      pay = async () => ({
        status: 201,
        body: `{"run":${runs}}`,
        headers: { "content-type": "application/json", "x-charge": "c1" },
      });
      server = await start(make, () => {
        runs++;
        return pay();
      });
      ({ instance } = server);
    });
    afterEach(() => server[Symbol.asyncDispose]());
    const post: (typeof server)["post"] = (...request) => server.post(...request);

    it("runs once and replays status, headers and body, marked as a replay", async () => {
      const first = await post('"abc"');
      expect([first.status, await first.text(), first.headers.get("idempotent-replayed")]).toEqual([
        201,
        '{"run":1}',
        null,
      ]);
      for (const again of [await post('"abc"'), await post("abc")]) {
        expect([again.status, await again.text()]).toEqual([201, '{"run":1}']);
        expect(again.headers.get("idempotent-replayed")).toBe("true");
        expect(again.headers.get("x-charge")).toBe("c1");
        expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
      }
      expect(runs).toBe(1);
    });

    it("claims with the specified scope hash and fingerprint", async () => {
      await (await post("abc", '{"amount":5}', "?b=2&a=1")).text();
      const [claim] = instance.plane.idempotency.calls;
      const { projectId, tenantId } = instance.plane;
      const body = '{"amount":5}';
      expect(claim?.body).toEqual({
        scope_hash: sha(JSON.stringify([projectId, "live", tenantId, "POST", "/pay", "abc"])),
        fingerprint: sha(`POST\n/pay\na=1&b=2\n${body}`),
        env: "live",
        ttl_ms: 60_000,
      });
    });

    it("runs again for another key, and runs without a key", async () => {
      for (const one of ["k1", "k2", null, null]) expect((await post(one)).status).toBe(201);
      expect(runs).toBe(4);
      expect(instance.plane.idempotency.calls.filter(({ verb }) => verb === "claim").length).toBe(2);
    });

    it("responds 422 to the same key with another body or query", async () => {
      await (await post("k")).text();
      for (const other of [await post("k", '{"amount":6}'), await post("k", '{"amount":5}', "?x=1")]) {
        expect(other.status).toBe(422);
        expect(await other.json()).toMatchObject({ error: { code: "idempotency_mismatch" } });
      }
      expect(runs).toBe(1);
    });

    it("responds 409 while the first request is running, and holds its claim meanwhile", async () => {
      const beats = () => instance.plane.idempotency.calls.filter(({ verb }) => verb === "heartbeat").length;
      instance.plane.idempotency.lockMs = 150;
      // The claim expires at the second heartbeat unless one extends it.
      instance.plane.idempotency.now = () => 100 * beats();
      let finish = () => {};
      const gate = new Promise<void>((resolve) => (finish = resolve));
      pay = async () => {
        await gate;
        return { status: 200, body: "done" };
      };
      const first = post("k");
      await until(() => runs === 1);
      await until(() => beats() >= 4);
      const second = await post("k");
      expect(second.status).toBe(409);
      expect(second.headers.get("retry-after")).toBe("1");
      expect(await second.json()).toMatchObject({ error: { code: "conflict" } });
      finish();
      expect(await (await first).text()).toBe("done");
      const after = beats();
      expect(await (await post("k")).text()).toBe("done");
      expect(runs).toBe(1);
      // One heartbeat may have been in flight when the response was stored.
      expect(beats() - after).toBeLessThan(2);
    });

    it("asks to retry within two seconds while the first request is running, not at the end of its lease", async () => {
      let finish = () => {};
      const gate = new Promise<void>((resolve) => (finish = resolve));
      pay = async () => (await gate, { status: 200, body: "done" });
      const first = post("k");
      await until(() => runs === 1);
      expect((await post("k")).headers.get("retry-after")).toBe("2");
      finish();
      expect(await (await first).text()).toBe("done");
    });

    it("releases the claim when the handler throws, so that a retry runs", async () => {
      pay = async () => {
        throw new Error("the bank is away");
      };
      expect((await post("k")).status).toBe(500);
      expect(instance.plane.idempotency.calls.map(({ verb }) => verb)).toEqual(["claim", "release"]);
      pay = async () => ({ status: 200, body: "paid at last" });
      expect(await (await post("k")).text()).toBe("paid at last");
      expect(runs).toBe(2);
    });

    it("replays an error response of the handler", async () => {
      pay = async () => ({ status: 402, body: "no money" });
      for (let i = 0; i < 2; i++) {
        const response = await post("k");
        expect([response.status, await response.text()]).toEqual([402, "no money"]);
      }
      expect(runs).toBe(1);
    });

    it("replays a response without a body", async () => {
      pay = async () => ({ status: 204, body: "" });
      for (let i = 0; i < 2; i++) {
        const response = await post("k");
        expect([response.status, await response.text()]).toEqual([204, ""]);
      }
      expect(runs).toBe(1);
    });

    it("sends a response that is too large to store, and never runs again for it", async () => {
      const large = "x".repeat(262_145);
      pay = async () => ({ status: 200, body: large });
      expect((await (await post("k")).text()).length).toBe(large.length);
      const again = await post("k");
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([409, "true"]);
      expect(await again.json()).toEqual({
        error: { code: "conflict", message: "The first response was too large to keep." },
      });
      expect(runs).toBe(1);
    });

    it("stores the response of a handler whose client disconnects while it runs", async () => {
      let finish = () => {};
      const gate = new Promise<void>((resolve) => (finish = resolve));
      pay = async () => {
        await gate;
        return { status: 201, body: "charged" };
      };
      const { app, key } = server;
      const headers = { authorization: `Bearer ${key}`, "idempotency-key": "k", "content-type": "application/json" };
      const leaving = request(`${app.url}/pay`, { method: "POST", headers });
      leaving.on("error", () => {}).end('{"amount":5}');
      await until(() => runs === 1);
      leaving.destroy();
      await expect.poll(() => app.connections()).toBe(0);
      await turns(); // the response's own event follows
      finish();
      await until(() => instance.plane.idempotency.calls.some(({ verb }) => verb === "complete"));
      const retry = await post("k");
      expect([retry.status, await retry.text(), retry.headers.get("idempotent-replayed")]).toEqual([
        201,
        "charged",
        "true",
      ]);
      expect(runs).toBe(1);
    });

    it("stores no cookie and no connection header", async () => {
      const headers = {
        "set-cookie": "session=1",
        "set-cookie2": "session=1",
        "x-kept": "yes",
        connection: "close, X-Hop",
        "x-hop": "1",
      };
      pay = async () => ({ status: 200, body: "ok", headers });
      expect((await post("k")).headers.get("set-cookie")).toBe("session=1");
      const again = await post("k");
      expect([again.headers.get("set-cookie"), again.headers.get("x-kept")]).toEqual([null, "yes"]);
      const stored = instance.plane.idempotency.calls.find(({ verb }) => verb === "complete")?.body[
        "headers"
      ] as object;
      const perConnection = ["connection", "x-hop", "transfer-encoding", "content-length"];
      for (const dropped of ["set-cookie", "set-cookie2", "date", ...perConnection]) {
        expect(stored).not.toHaveProperty(dropped);
      }
    });

    it("stores the response before the client has received all of it", async () => {
      await (await post("k")).text();
      const verbs = instance.plane.idempotency.calls.map(({ verb }) => verb);
      expect(verbs).toEqual(["claim", "complete"]);
    });

    it("responds 503 without running the handler when the claim is unreachable, rejected or malformed", async () => {
      for (const wrong of ["drop", { status: 503, text: "{}" }, { status: 200, text: '{"state":"run"}' }] as const) {
        instance.plane.injectFault = ({ path }) => (path.endsWith("claim") ? wrong : undefined);
        const response = await post("k");
        expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
        expect(await response.json()).toMatchObject({ error: { code: "unavailable" } });
      }
      expect(runs).toBe(0);
    });

    it("rejects a malformed key", async () => {
      for (const bad of ['"', '"a', "a".repeat(256), '"a"b"', "a b", '""', '"a\\n"']) {
        const response = await post(bad);
        expect([bad, response.status]).toEqual([bad, 400]);
        expect(await response.json()).toMatchObject({ error: { code: "invalid_request" } });
      }
      expect(runs).toBe(0);
    });

    it("separates tenants that use the same key", async () => {
      await (await post("k")).text();
      const other = await server.mint("0190163d-8694-739b-aea5-966c26f8ad77");
      expect((await post("k", undefined, "", other)).headers.get("idempotent-replayed")).toBe(null);
      expect(runs).toBe(2);
    });
  });
}

// At the same time, because each waits until its library tries again.
describe.concurrent("a response that cannot be stored at first", () => {
  for (const [name, make] of Object.entries(apps))
    it(`is sent, and stored later, on ${name}`, async () => {
      let runs = 0;
      await using server = await start(make, async () => ({ status: 201, body: `{"run":${++runs}}` }));
      const { post } = server;
      const { plane } = server.instance;
      let refusals = 2;
      plane.injectFault = ({ path }) =>
        path.endsWith("complete") && refusals-- > 0 ? { status: 503, text: "{}" } : undefined;
      expect((await post("k")).status).toBe(201);
      await until(() => plane.idempotency.calls.some(({ verb }) => verb === "complete"));
      expect((await post("k")).headers.get("idempotent-replayed")).toBe("true");
      expect(runs).toBe(1);
    });
});
