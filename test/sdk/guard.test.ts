// The core of protect, without a framework: where it finds the key, which headers a response has, and how it treats
// invalid options.

import { request, createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { protect } from "../../src/sdk/adapters/node.ts";
import { denialResponse, denials } from "../../src/sdk/denials.ts";
import { OWN_FORMATS } from "../../src/kernel/crypto/key-digest.ts";
import type { ProtectOptions } from "../../src/sdk/protect-options.ts";
import { findKey } from "../../src/sdk/key-location.ts";
import type { Keyrack } from "../../src/sdk/instance.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { replayHeaders } from "../../src/sdk/idempotency/replay.ts";
import { earlierSdkText } from "../../harness/sdk/earlier-sdk.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";

const KEY = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
const incoming = { method: "GET", path: "/" };

describe("finding the key", () => {
  const cases: [string, string | undefined, string | undefined, string | null][] = [
    ["a bearer token", `Bearer ${KEY}`, undefined, KEY],
    ["a bearer token in capitals with spaces", `BEARER   ${KEY}`, undefined, KEY],
    ["x-api-key", undefined, KEY, KEY],
    ["the bearer token before x-api-key", `Bearer ${KEY}`, "kr_live_other", KEY],
    ["x-api-key before a bearer token that is not a key", "Bearer eyJ.a.b", KEY, KEY],
    ["a bearer token that is not a key, so that it is rejected", "Bearer eyJ.a.b", undefined, "eyJ.a.b"],
    ["nothing from another scheme", `Basic ${KEY}`, undefined, null],
    ["nothing from a key without a scheme", KEY, undefined, null],
    ["nothing from an empty bearer token", "Bearer ", "", null],
    ["nothing from a scheme that begins with Bearer", `Bearers ${KEY}`, undefined, null],
  ];
  for (const [what, authorization, apiKey, key] of cases) {
    it(`takes ${what}`, () => {
      const found = findKey({ authorization, apiKey }, OWN_FORMATS);
      expect(found && found.text.slice(found.offset)).toBe(key);
    });
  }
});

describe("the headers of a response", () => {
  it("include the scopes only if they are short and all characters are safe", () => {
    const challenge = (required: string[]) =>
      denialResponse("insufficient_scope", { required })["headers"]["www-authenticate"];
    const plain = 'Bearer realm="keyrack", error="insufficient_scope"';
    expect(challenge(["a:read", "b!"])).toBe(`${plain}, scope="a:read b!"`);
    for (const bad of ['a"b', "a\\b", "a\r\nset-cookie: x=1", "a b", "é", "\u0000", "", "x".repeat(1025)]) {
      expect(challenge(["ok", bad])).toBe(plain);
    }
  });

  it("reach the client over a socket even with an unsafe scope", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const scopes = ["evil\r\nx-injected: yes", "日本"];
    const server = createServer(protect(instance.keyrack, { scopes }, (_req, res) => res.end("in")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    expect([response.status, response.headers.get("x-injected")]).toEqual([403, null]);
    expect(await response.json()).toMatchObject({ error: { missing_scopes: scopes } });
    server.close();
  });

  it("of a replay contain no connection headers and no invalid values", () => {
    const headers = replayHeaders({
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
    expect(headers).toEqual({ "content-type": "text/plain", "x-many": "a, b", "x-count": "5" });
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x-${i}`, "1"]));
    expect(Object.keys(replayHeaders(many)).length).toBe(64);
  });

  it("of every denial are JSON and no-store", () => {
    for (const name of Object.keys(denials) as (keyof typeof denials)[]) {
      const { status, headers, body } = denialResponse(name);
      const [wanted, code, message] = denials[name];
      expect([status, headers["cache-control"], JSON.parse(body)]).toEqual([
        wanted,
        "no-store",
        { error: { code, message } },
      ]);
      expect("retry-after" in headers).toBe(status === 503);
      expect("www-authenticate" in headers).toBe(status === 401 || name === "insufficient_scope");
    }
  });

  it("of denials are those of release 0.1.0, which clients may compare", () => {
    const earlier = earlierSdkText();
    const known = Object.entries(denials).filter(([name]) => earlier.includes(`${name}:[`));
    expect(known.length).toBe(13);
    for (const [name, denial] of known)
      expect([name, denial, earlier.includes(`${name}:${JSON.stringify(denial)}`)]).toEqual([name, denial, true]);
  });
});

describe("protect's options", () => {
  const bad: [string, object, RegExp][] = [
    ["a scope as text", { scopes: "read" }, /scopes/],
    ["an empty scope", { scopes: [""] }, /scopes/],
    ["a misspelled fail mode", { failMode: "OPEN" }, /failMode/],
    ["misspelled limits", { limits: "none" }, /limits/],
    ["a misspelled option", { scope: ["read"] }, /no option "scope"/],
    ["skip as text", { skip: "no" }, /skip/],
    ["null as options", null as never, /takes an object of options/],
    ["getKey as text", { getKey: "x-key" }, /getKey/],
  ];
  for (const [what, options, message] of bad) {
    it(`reject ${what} when the route is created`, async () => {
      await using instance = await startTestKeyrack({ ready: false });
      expect(() => internalsOf(instance.keyrack).guard(options as ProtectOptions)).toThrow(message);
    });
  }

  it("throw without a handler and on an object that is not an instance", async () => {
    await using instance = await startTestKeyrack({ ready: false });
    expect(() => protect(instance.keyrack, {}, undefined as never)).toThrow(/handler/);
    for (const none of [undefined, null, {}]) expect(() => internalsOf(none as Keyrack)).toThrow(/createKeyrack/);
  });

  it("skip only on true: the promise of an async function is not true", async () => {
    await using instance = await startTestKeyrack();
    const skip = (async () => true) as unknown as () => boolean;
    const admitted = await internalsOf(instance.keyrack)
      .guard({ skip })
      .admit(null, { ...incoming, authorization: null, apiKey: null });
    expect(admitted.denial?.status).toBe(401);
  });

  it("reject a request whose getKey throws or does not return a string", async () => {
    await using instance = await startTestKeyrack();
    const none = { ...incoming, authorization: null, apiKey: null };
    const broken = () => {
      throw new Error("no header");
    };
    await expect(internalsOf(instance.keyrack).guard({ getKey: broken }).admit(null, none)).rejects.toThrow(
      "no header",
    );
    const wrong = (() => ({ key: KEY })) as unknown as () => string;
    expect((await internalsOf(instance.keyrack).guard({ getKey: wrong }).admit(null, none)).denial?.status).toBe(401);
    const later = async () => null;
    expect((await internalsOf(instance.keyrack).guard({ getKey: later }).admit(null, none)).denial?.status).toBe(401);
  });
});

describe("a function in the options of protect that fails on a request", () => {
  const broken = () => {
    throw new Error("the vendor's own bug");
  };
  it.each<[string, ProtectOptions]>([
    ["skip", { skip: broken }],
    ["getKey", { getKey: broken }],
    ["getIp", { getIp: broken }],
    ["cost", { cost: broken }],
    ["cost, whose result cannot be charged", { cost: () => 1001 }],
  ])("is a 500 on node:http, and does not end the process: %s", async (_, options) => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint(
      "getIp" in options ? { allowed_cidrs: ["203.0.113.0/24"], ip_mode: "enforce" } : {},
    );
    await until(() => instance.keyrack.status().keys === 1);
    let runs = 0;
    const server = createServer(protect(instance.keyrack, options, (_req, res) => res.end(`${++runs}`)));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    expect([response.status, await response.json()]).toMatchObject([500, { error: { code: "internal_error" } }]);
    server.close();
    await instance.keyrack.close();
    expect(runs).toBe(0);
    expect(instance.plane.ingest.events.map(({ status }) => status)).toEqual([500]);
    const logged = instance.lines.filter(({ level }) => level === "error").map(({ message }) => message);
    expect(logged).toEqual(["a function in the options of protect failed"]);
  });

  it("is logged without the credentials in its error, and not for every request", async () => {
    await using instance = await startTestKeyrack();
    const getKey = () => {
      throw new Error(`no session for Bearer ${KEY}`);
    };
    const guard = internalsOf(instance.keyrack).guard({ getKey });
    const admit = () => guard.admit(null, { ...incoming, authorization: null, apiKey: null });
    for (let i = 0; i < 5; i++) await expect(admit()).rejects.toThrow(KEY);
    const logged = instance.lines.filter(({ level }) => level === "error").map(({ fields }) => fields);
    const why = "Error: no session for Bearer kr_redacted";
    expect(logged).toEqual([1, 2, 4].map((requests) => ({ why, requests })));
  });

  it.each(["skip", "getIp", "cost", "tags", "log"])("does not end the process if it is async: %s", async (name) => {
    const rejected: unknown[] = [];
    const listener = (error: unknown) => rejected.push(error);
    process.on("unhandledRejection", listener);
    const rejects = (async () => Promise.reject(new Error("the vendor's own bug"))) as () => never;
    await using instance = await startTestKeyrack({ options: name === "log" ? { log: rejects } : {} });
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const guard = internalsOf(instance.keyrack).guard(name === "log" ? { cost: broken } : { [name]: rejects });
    const admitted = await guard.admit(null, { ...incoming, authorization: null, apiKey: key }).catch(String);
    if (typeof admitted === "object") admitted.done(200, null);
    await instance.keyrack.close();
    process.off("unhandledRejection", listener);
    expect(rejected).toEqual([]);
    expect(instance.plane.ingest.events.map(({ status }) => status)).toEqual([
      typeof admitted === "object" ? 200 : 500,
    ]);
  });
});

describe("a node:http request with its key in two headers of one name", () => {
  it("is rejected instead of guessing which one was meant", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const server = createServer(protect(instance.keyrack, {}, (_req, res) => res.end("in")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const sent = request({ port, host: "127.0.0.1", headers: { "x-api-key": [key, key] } });
    sent.end();
    const [response] = (await once(sent, "response")) as [{ statusCode: number; resume(): void }];
    response.resume();
    expect(response.statusCode).toBe(401);
    server.close();
  });
});
