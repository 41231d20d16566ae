// ready(): how it treats its options, which errors it rejects with, and what a vendor without a log function sees.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KeyrackError } from "../../src/sdk/index.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../harness/sdk/ports.ts";
import { startTestKeyrack, type TestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";
import { DAY_MS, HOUR_MS } from "../../src/kernel/durations.ts";
import { safeLog } from "../../src/sdk/runtime.ts";

type ReadyOptions = Parameters<TestKeyrack["keyrack"]["ready"]>[0];
const warned = ({ lines }: TestKeyrack) => lines.filter(({ level }) => level === "warn").map(({ message }) => message);

describe("the options of ready()", () => {
  it.each<[string, unknown, string]>([
    ["an option that it does not have", { timeout: 0 }, 'ready has no option "timeout", only timeoutMs; it is ignored'],
    ["a number", 5, "ready takes an object, such as { timeoutMs: 5000 }; it waits without a limit"],
    ["null", null, "ready takes an object, such as { timeoutMs: 5000 }; it waits without a limit"],
  ])("log a warning for %s, and wait as before", async (_, options, message) => {
    const ports = new ManualPorts();
    await using plane = await FakeControlPlane.start();
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const ready = instance.keyrack.ready(options as ReadyOptions);
    expect(warned(instance)).toEqual([message]);
    await until(() => plane.seen.length === 1);
    plane.injectFault = () => undefined;
    await until(() => (ports.advance(10_000), instance.keyrack.status().version !== null));
    await ready;
  });

  it("take a number in a text as earlier releases did, with a warning", async () => {
    const ports = new ManualPorts();
    await using plane = await FakeControlPlane.start();
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const late = instance.keyrack.ready({ timeoutMs: "700" } as unknown as ReadyOptions).catch(String);
    expect(warned(instance)).toEqual(["timeoutMs of ready should be a number, not a text"]);
    ports.advance(699);
    expect(ports.waiting).toContain(1);
    ports.advance(1);
    expect(await late).toBe(`KeyrackError: keyrack has no policy after 700 ms from ${plane.url}: no response yet.`);
  });

  it.each([Number.NaN, "", "5s", null, true, {}])("reject a timeout that is no number: %o", async (timeoutMs) => {
    await using instance = await startTestKeyrack({ ready: false });
    const ready = instance.keyrack.ready({ timeoutMs } as unknown as ReadyOptions);
    await expect(ready).rejects.toThrow(new TypeError("keyrack: timeoutMs must be a number of milliseconds."));
  });
});

describe("a KeyrackError", () => {
  /** To the next retry, if one waits: never to the timeout of a call in flight. */
  function toRetry(ports: ManualPorts): void {
    const [next = 0] = ports.waiting;
    if (next < 5000) ports.advance(next);
  }

  /** What ready() rejects with, however many calls that takes. */
  async function rejectionOf({ keyrack }: TestKeyrack, ports: ManualPorts): Promise<KeyrackError> {
    let error: unknown;
    keyrack.ready().then(
      () => (error = "ready"),
      (caught: unknown) => (error = caught),
    );
    await until(() => (toRetry(ports), error !== undefined));
    expect(error).toBeInstanceOf(KeyrackError);
    return error as KeyrackError;
  }

  async function errorFor(fault: FakeControlPlane["injectFault"], url = ""): Promise<KeyrackError> {
    const ports = new ManualPorts();
    await using plane = await FakeControlPlane.start();
    plane.injectFault = fault;
    const options = url ? { url: plane.url + url } : {};
    await using instance = await startTestKeyrack({ plane, ports, options, ready: false });
    return await rejectionOf(instance, ports);
  }

  it.each([
    [400, "Check that url is that of a Keyrack server, and projectId and env"],
    [401, "Check secretKey (it may be revoked, expired or of another server) and the proxies before url"],
    [403, "it needs the permission verify. Or a proxy before url refuses the request"],
    [404, "Check projectId and url"],
  ])("of a rejection has the status %d and says what to check", async (status, text) => {
    const error = await errorFor(() => ({ status, text: "{}" }));
    expect([error.code, error.status]).toEqual(["rejected", status]);
    expect(error.message).toContain(`${text} (status ${status}).`);
  });

  it.each([301, 302, 307, 308])("of redirects with status %d to https names the address to use", async (status) => {
    const seen: string[] = [];
    const error = await errorFor(({ path }) => {
      seen.push(path);
      const location = `https://127.0.0.1:8443/new${path}?token=secret`;
      return { status, text: "", headers: { location } };
    }, "/base");
    expect(seen[0]).toBe("/base/v1/policy/snapshot");
    expect([error.code, error.status]).toEqual(["rejected", status]);
    const next = "Set url to that address";
    expect(error.message).toBe(
      `Cannot start: the URL redirects to https://127.0.0.1:8443/new/base. ${next} (status ${status}).`,
    );
  });

  it.each<[string, (path: string) => string, string]>([
    ["a login page", () => "https://sso.example/login/SECRET?x=1", " to https://sso.example"],
    ["the endpoint on another host", (path) => `https://keys.example/SECRET${path}`, " to https://keys.example"],
    ["the endpoint on another port", (path) => `http://127.0.0.1:1/SECRET${path}`, " to http://127.0.0.1:1"],
    ["another page of the host", () => "https://127.0.0.1/login/SECRET", " to https://127.0.0.1"],
    ["another scheme", (path) => `app://user:SECRET@127.0.0.1${path}`, ""],
    ["no address", () => "", ""],
  ])("of redirects to %s never advises to use it, and names the origin only", async (_, locate, named) => {
    const location = (path: string) => (locate(path) ? { location: locate(path) } : {});
    const { message } = await errorFor(({ path }) => ({ status: 307, text: "", headers: location(path) }));
    expect(message).toBe(`Cannot start: the URL redirects${named}. Check url and the proxies before it (status 307).`);
  });

  it("of redirects gives no address to use where TLS would end, or where it is the same", async () => {
    const redirects = [
      ["https://keys.example", "http://keys.example"],
      ["https://keys.example", "https://keys.example"],
    ];
    for (const [url = "", origin = ""] of redirects) {
      const ports = new ManualPorts();
      ports.fetch = async (address) => {
        const { pathname } = new URL(address);
        return new Response(null, { status: 302, headers: { location: `${origin}${pathname}?retry=1` } });
      };
      await using plane = await FakeControlPlane.start();
      await using instance = await startTestKeyrack({ plane, ports, options: { url }, ready: false });
      const error = await rejectionOf(instance, ports);
      expect(error.message).toContain(`redirects to ${origin}. Check url and the proxies before it`);
    }
  });

  it("is not the result of a single redirect, nor of two with another failure between them", async () => {
    await using plane = await FakeControlPlane.start();
    const statuses = [302, 503, 302];
    plane.injectFault = () => {
      const status = statuses.shift();
      return status === undefined ? undefined : { status, text: "", headers: { location: "https://sso.example/" } };
    };
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const ready = instance.keyrack.ready();
    ready.catch(() => {});
    await until(() => (toRetry(ports), instance.keyrack.status().version !== null));
    await ready;
    expect(statuses).toEqual([]);
  });

  it("of a timeout and of close() has a code of its own, and no status", async () => {
    await using plane = await FakeControlPlane.start();
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    const ports = new ManualPorts();
    const { keyrack } = await startTestKeyrack({ plane, ports, ready: false });
    const late = keyrack.ready({ timeoutMs: 20 }).catch((error: KeyrackError) => error);
    ports.advance(20);
    expect(await late).toMatchObject({ code: "timeout", status: null });
    const waiting = keyrack.ready().catch((error: KeyrackError) => error);
    await keyrack.close();
    expect(await waiting).toMatchObject({ code: "closed", status: null });
  });

  it("of a timeout says that a large policy is still being loaded, whatever failed before", async () => {
    const ports = new ManualPorts();
    await using plane = await FakeControlPlane.start();
    plane.mint();
    plane.mint();
    plane.feed.ceiling = 1;
    plane.injectFault = ({ query }) =>
      plane.seen.length === 1 ? { status: 503 } : query.has("cursor") ? "hang" : undefined;
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const late = instance.keyrack.ready({ timeoutMs: 20_000 }).catch((error: KeyrackError) => error);
    await until(() => (toRetry(ports), plane.seen.length === 3));
    ports.advance(20_000);
    const message = `keyrack has no policy after 20000 ms from ${plane.url}: it is still being loaded.`;
    expect(await late).toMatchObject({ code: "timeout", message });
  });

  it("follows close(), also where ready() had resolved", async () => {
    await using instance = await startTestKeyrack();
    await instance.keyrack.ready();
    await instance.keyrack.close();
    const again = instance.keyrack.ready();
    await expect(again).rejects.toMatchObject({ code: "closed", message: "keyrack was closed." });
    await expect(instance.keyrack.ready({ timeoutMs: 1 })).rejects.toMatchObject({ code: "closed" });
  });

  it.each<[string, Parameters<typeof errorFor>[0], string]>([
    ["a server that is restarting", () => ({ status: 503, text: "" }), "Rejected with status 503."],
    [
      "a web page",
      () => ({ status: 200, text: "<h1>Welcome</h1>" }),
      "The response is not JSON: is url that of a Keyrack server?",
    ],
  ])("of a timeout names the URL and the last failure: %s", async (_, fault, why) => {
    await using plane = await FakeControlPlane.start();
    plane.injectFault = fault;
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const late = instance.keyrack.ready({ timeoutMs: 9000 }).catch((error: KeyrackError) => error);
    await until(() => instance.lines.some(({ message }) => message === "the first policy cannot be loaded yet"));
    ports.advance(9000);
    const error = (await late) as KeyrackError;
    expect(error.message).toBe(`keyrack has no policy after 9000 ms from ${plane.url}: ${why}`);
    expect(error).toMatchObject({ code: "timeout", status: null, cause: { name: "CallError", message: why } });
  });

  it("can be made as in earlier releases, from a message and a cause", () => {
    const error = new KeyrackError("no", { cause: 1 });
    expect([error.message, error.cause, error.name]).toEqual(["no", 1, "KeyrackError"]);
    expect("cause" in new KeyrackError("no")).toBe(false);
  });
});

describe("without a log function", () => {
  let shown: string[];
  beforeEach(() => {
    shown = [];
    vi.spyOn(process, "emitWarning").mockImplementation((text) => void shown.push(String(text)));
  });
  afterEach(() => vi.restoreAllMocks());

  it("a warning of the process says that the secret key travels unencrypted", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    ports.fetch = () => new Promise(() => {});
    const keyrack = createKeyrackWith({ ...plane.options, url: "http://keys.example" }, ports);
    expect(shown).toEqual([expect.stringContaining("the secret key travels unencrypted: use https")]);
    const closed = keyrack.close();
    ports.advance(10_000);
    await closed;
  });

  it("a warning of the process says once that rate limits are not checked", async () => {
    await using plane = await FakeControlPlane.start();
    const rule = { id: "r", limit: 5, window_ms: 60_000, algorithm: "fixed" as const, scope: "key" as const };
    const { key } = plane.mint({ rate_limits: [rule] });
    plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? { status: 500, text: "{}" } : undefined);
    await using instance = await startTestKeyrack({ plane, options: { log: undefined } });
    const { protect } = await import("../../src/sdk/adapters/fetch.ts");
    const serve = protect(instance.keyrack, {}, () => new Response());
    for (let i = 0; i < 3; i++)
      expect((await serve(new Request("http://app/", { headers: { "x-api-key": key } }))).status).toBe(200);
    expect(shown).toEqual([expect.stringContaining("rate limits cannot be checked; requests are admitted")]);
  });

  it("a revoked secret key is shown even after an outage was, with the status", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    // Not stale within the test, which would be a warning too.
    const options = { log: undefined, staleMs: DAY_MS };
    await using instance = await startTestKeyrack({ plane, ports, options });
    let status = 500;
    plane.injectFault = ({ path }) => (path.startsWith("/v1/policy") ? { status, text: "{}" } : undefined);
    plane.mint(); // ends the poll in flight
    await until(() => shown.length === 1);
    status = 401;
    await until(() => (ports.advance(10_000), shown.length === 2));
    expect(shown.map((text) => text.includes("the policy feed failed"))).toEqual([true, true]);
    expect(shown[1]).toContain('"status":401');
    expect(instance.keyrack.status().version).not.toBeNull();
  });

  it("each outage is shown, if the last one was an hour ago", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, options: { log: undefined } });
    const outage = async () => {
      shown.length = 0;
      await plane.down();
      await until(() => shown.some((text) => text.includes("the policy feed failed")));
      ports.advance(DAY_MS + 1);
      expect(instance.keyrack.status().version).toBeNull();
      const seen = [...shown];
      await plane.up();
      await until(() => (ports.advance(1000), instance.keyrack.status().version !== null));
      return seen.filter((text) => !text.includes("the policy feed failed"));
    };
    const both = [
      expect.stringContaining("the policy is stale"),
      expect.stringContaining("the policy is older than maxStaleMs"),
    ];
    expect(await outage()).toEqual(both);
    expect(await outage()).toEqual(both);
  });

  it("a message is not shown again within the hour", () => {
    let now = 0;
    const log = safeLog(undefined, () => now);
    const at = (ms: number, level: "info" | "warn" | "error") => ((now = ms), log(level, "broken", {}), shown.length);
    expect([at(0, "info"), at(0, "warn"), at(HOUR_MS - 1, "warn"), at(HOUR_MS - 1, "error")]).toEqual([0, 1, 1, 2]);
    expect([at(HOUR_MS, "warn"), at(HOUR_MS, "error"), at(2 * HOUR_MS, "error")]).toEqual([3, 3, 4]);
  });
});
