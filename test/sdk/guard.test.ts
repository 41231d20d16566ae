// The core of protect, without a framework: where a key is looked for, what an answer's headers may hold, what a wrong
// option does.

import { request, createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { protect } from "../../src/sdk/adapters/node.ts";
import { denialResponse, denials } from "../../src/sdk/denials.ts";
import { findKey, type ProtectOptions } from "../../src/sdk/guard.ts";
import { type Keyrack, internalsOf } from "../../src/sdk/internals.ts";
import { replayHeaders } from "../../src/sdk/idempotency/replay.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { waitUntil } from "../../harness/sdk/ports.ts";

const KEY = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
const incoming = { method: "GET", path: "/" };

describe("finding the key", () => {
  const cases: [string, string | undefined, string | undefined, string | null][] = [
    ["a bearer", `Bearer ${KEY}`, undefined, KEY],
    ["a bearer in capitals with spaces", `BEARER   ${KEY}`, undefined, KEY],
    ["the other header", undefined, KEY, KEY],
    ["the bearer before the other header", `Bearer ${KEY}`, "kr_live_other", KEY],
    ["the other header before somebody's session", "Bearer eyJ.a.b", KEY, KEY],
    ["a bearer that is no key, so that it is refused", "Bearer eyJ.a.b", undefined, "eyJ.a.b"],
    ["nothing in another scheme", `Basic ${KEY}`, undefined, null],
    ["nothing in a bare key", KEY, undefined, null],
    ["nothing in an empty bearer", "Bearer ", "", null],
    ["nothing in a word that begins like the scheme", `Bearers ${KEY}`, undefined, null],
  ];
  for (const [what, authorization, apiKey, key] of cases) {
    it(`takes ${what}`, () => {
      const found = findKey({ ...incoming, authorization, apiKey });
      expect(found && found.text.slice(found.offset)).toBe(key);
    });
  }
});

describe("an answer's headers", () => {
  it("name the scopes only where every character is safe and they are short", () => {
    const challenge = (required: string[]) =>
      denialResponse("insufficient_scope", { required })["headers"]["www-authenticate"];
    const plain = 'Bearer realm="keyrack", error="insufficient_scope"';
    expect(challenge(["a:read", "b!"])).toBe(`${plain}, scope="a:read b!"`);
    for (const bad of ['a"b', "a\\b", "a\r\nset-cookie: x=1", "a b", "é", "\u0000", "", "x".repeat(1025)]) {
      expect(challenge(["ok", bad])).toBe(plain);
    }
  });

  it("with a scope that would break them reach the client over a socket all the same", async () => {
    await using r = await startTestKeyrack();
    const { key } = r.plane.mint();
    await waitUntil(() => r.keyrack.verify(key).ok);
    const scopes = ["evil\r\nx-injected: yes", "日本"];
    const server = createServer(protect(r.keyrack, { scopes }, (_req, res) => res.end("in")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    expect([answer.status, answer.headers.get("x-injected")]).toEqual([403, null]);
    expect(await answer.json()).toMatchObject({ error: { missing_scopes: scopes } });
    server.close();
  });

  it("of a replay hold nothing that a connection owns and nothing that cannot be written", () => {
    const kept = replayHeaders({
      "Content-Type": "text/plain",
      "X-Many": ["a", "b"],
      "set-cookie": "s=1",
      connection: "close",
      "transfer-encoding": "chunked",
      "bad name": "x",
      "x-split": "a\r\nb: c",
      "x-wide": "日本",
      "x-long": "x".repeat(4097),
      "x-count": 5,
    });
    expect(kept).toEqual({ "content-type": "text/plain", "x-many": "a, b", "x-count": "5" });
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x-${i}`, "1"]));
    expect(Object.keys(replayHeaders(many)).length).toBe(64);
  });

  it("of every denial make one JSON answer that is not cached", () => {
    for (const name of Object.keys(denials) as (keyof typeof denials)[]) {
      const { status, headers, body } = denialResponse(name);
      const [wanted, code, message] = denials[name];
      expect([status, headers["cache-control"], JSON.parse(body)]).toEqual([
        wanted,
        "no-store",
        { error: { code, message } },
      ]);
      expect("retry-after" in headers).toBe(status === 503);
      expect("www-authenticate" in headers).toBe(status === 401 || status === 403);
    }
  });
});

describe("protect's options", () => {
  const bad: [string, object, RegExp][] = [
    ["a scope as text", { scopes: "read" }, /scopes/],
    ["an empty scope", { scopes: [""] }, /scopes/],
    ["a fail mode of another spelling", { failMode: "OPEN" }, /failMode/],
    ["limits of another spelling", { limits: "none" }, /limits/],
    ["a misspelt option", { scope: ["read"] }, /no option "scope"/],
    ["skip as text", { skip: "no" }, /skip/],
    ["getKey as text", { getKey: "x-key" }, /getKey/],
  ];
  for (const [what, options, message] of bad) {
    it(`refuse ${what} when the route is made`, async () => {
      await using r = await startTestKeyrack({ ready: false });
      expect(() => internalsOf(r.keyrack).guard(options as ProtectOptions)).toThrow(message);
    });
  }

  it("never admit by a handler that was forgotten or an instance that is none", async () => {
    await using r = await startTestKeyrack({ ready: false });
    expect(() => protect(r.keyrack, {}, undefined as never)).toThrow(/handler/);
    for (const none of [undefined, null, {}]) expect(() => internalsOf(none as Keyrack)).toThrow(/createKeyrack/);
  });

  it("skip only by true itself: the promise of an async function is not true", async () => {
    await using r = await startTestKeyrack();
    const skip = (async () => true) as unknown as () => boolean;
    const admitted = await internalsOf(r.keyrack)
      .guard({ skip })
      .admit(null, { ...incoming, authorization: null, apiKey: null });
    expect(admitted.denial?.status).toBe(401);
  });

  it("getKey that throws admits nobody, and one that gives no text is refused", async () => {
    await using r = await startTestKeyrack();
    const none = { ...incoming, authorization: null, apiKey: null };
    const broken = () => {
      throw new Error("no header");
    };
    await expect(internalsOf(r.keyrack).guard({ getKey: broken }).admit(null, none)).rejects.toThrow("no header");
    const wrong = (() => ({ key: KEY })) as unknown as () => string;
    expect((await internalsOf(r.keyrack).guard({ getKey: wrong }).admit(null, none)).denial?.status).toBe(401);
    const later = async () => null;
    expect((await internalsOf(r.keyrack).guard({ getKey: later }).admit(null, none)).denial?.status).toBe(401);
  });
});

describe("a node:http request with its key in two headers of one name", () => {
  it("is refused: which one was meant is not ours to guess", async () => {
    await using r = await startTestKeyrack();
    const { key } = r.plane.mint();
    await waitUntil(() => r.keyrack.verify(key).ok);
    const server = createServer(protect(r.keyrack, {}, (_req, res) => res.end("in")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const asking = request({ port, host: "127.0.0.1", headers: { "x-api-key": [key, key] } });
    asking.end();
    const [answer] = (await once(asking, "response")) as [{ statusCode: number; resume(): void }];
    answer.resume();
    expect(answer.statusCode).toBe(401);
    server.close();
  });
});
