// The network and the user agent that events name: cut in the process, when they change and once a minute.

import { describe, expect, it } from "vitest";
import { ClientInfo } from "../../../src/sdk/telemetry/client-info.ts";
import { internalsOf } from "../../../src/sdk/internals.ts";
import type { KeyrackOptions } from "../../../src/sdk/options.ts";
import type { ProtectOptions } from "../../../src/sdk/protect-options.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import { SDK_NAME, SDK_VERSION } from "../../../src/sdk/version.ts";
import { until } from "../../../harness/waiting.ts";

const RULE = { id: "m", limit: 10, window_ms: 60_000, algorithm: "sliding", scope: "key" } as const;

describe("ClientInfo", () => {
  const fields = (info: ClientInfo, address: string | null, userAgent: string | null, elapsed = 0, key = "k") =>
    info.fieldsOf(key, { address, userAgent }, elapsed);

  it("names a network and a product, never an address or a version", () => {
    const cases = [
      ["203.0.113.77", "curl/8.5.0", { network: "203.0.113.0/24", user_agent: "curl" }],
      ["::ffff:203.0.113.77", "Mozilla/5.0 (X11)", { network: "203.0.113.0/24", user_agent: "Mozilla" }],
      ["2001:db9:1:2::3%eth0", "my-app", { network: "2001:db9:1::/48", user_agent: "my-app" }],
      ["203.0.113.77:4711", "a".repeat(33), { network: "203.0.113.0/24" }],
      ["10.1.2.3", "curl", { network: null, user_agent: "curl" }],
      [null, "curl ", { network: null, user_agent: "curl" }],
      ["172.31.0.1", null, null],
      ["127.0.0.1", "(compatible)", null],
      ["192.168.1.1", "über/1", null],
      ["169.254.1.1", "", null],
      ["fe80::1", null, null],
      ["fd00::1", null, null],
      ["::1", null, null],
      ["nonsense", null, null],
    ] as const;
    for (const [address, agent, expected] of cases) expect(fields(new ClientInfo(), address, agent)).toEqual(expected);
  });

  it("says it again after a minute, and at once when it differs", () => {
    const info = new ClientInfo();
    const [first, same] = [fields(info, "203.0.113.1", "curl"), fields(info, "203.0.113.2", "curl/9")];
    expect([first !== null, same]).toEqual([true, null]);
    expect(fields(info, "203.0.113.1", "curl", 0, "another")).not.toBeNull();
    expect(fields(info, "203.0.114.1", "curl", 1)).toEqual({ network: "203.0.114.0/24", user_agent: "curl" });
    expect(fields(info, "203.0.114.1", "curl", 59_999)).toBeNull();
    expect(fields(info, "203.0.114.1", "curl", 60_000)).not.toBeNull();
  });

  it("forgets keys at its bound instead of growing", () => {
    const info = new ClientInfo();
    for (let i = 0; i < 10_001; i++) fields(info, null, "curl", 0, `k${i}`);
    expect(fields(info, null, "curl", 0, "k0")).not.toBeNull();
    expect(fields(info, null, "curl", 0, "k10000")).toBeNull();
  });
});

describe("events", () => {
  const send = async (options: Partial<KeyrackOptions>, route: ProtectOptions = {}) => {
    await using instance = await startTestKeyrack({ options });
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const guard = internalsOf(instance.keyrack).guard(route);
    for (const authorization of [`Bearer ${key}`, `Bearer ${key}`, "Bearer kr_live_nonsense"]) {
      const from = { peer: "203.0.113.9", forwardedFor: "198.51.100.7", userAgent: "curl/8" };
      const admitted = await guard.admit({}, { method: "GET", path: "/", authorization, apiKey: null, ...from });
      admitted.done(admitted.denial?.status ?? 200, null);
    }
    await instance.keyrack.close();
    const events = instance.plane.ingest.events as unknown as Record<string, unknown>[];
    return events.map(({ network, user_agent }) => [network, user_agent]);
  };
  const NONE = [undefined, undefined];

  it("and every other call name the library and its version in a header", async () => {
    await using instance = await startTestKeyrack({});
    const { key } = instance.plane.mint({ rate_limits: [RULE] });
    await until(() => instance.keyrack.verify(key).ok);
    const guard = internalsOf(instance.keyrack).guard({});
    const admitted = await guard.admit({}, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
    admitted.done(200, null);
    await instance.keyrack.close();
    const named = new Set(instance.plane.seen.map(({ path, headers }) => `${path} ${String(headers["keyrack-sdk"])}`));
    const paths = ["ingest/batch", "policy/delta", "policy/snapshot", "ratelimit/check"];
    expect([...named].toSorted()).toEqual(paths.map((path) => `/v1/${path} ${SDK_NAME}/${SDK_VERSION}`));
  });

  it("carry the fields of a verified key's client, of the socket or behind trusted proxies", async () => {
    expect(await send({})).toEqual([["203.0.113.0/24", "curl"], NONE, NONE]);
    expect(await send({ trustedProxies: ["203.0.113.9"] })).toEqual([["198.51.100.0/24", "curl"], NONE, NONE]);
    expect(await send({}, { getIp: () => "192.0.2.1" })).toEqual([["192.0.2.0/24", "curl"], NONE, NONE]);
  });

  it("carry what report() is given of the client, cut in the process", async () => {
    const reported = async (options: Partial<KeyrackOptions>) => {
      await using instance = await startTestKeyrack({ options });
      const { key } = instance.plane.mint();
      await until(() => instance.keyrack.verify(key).ok);
      const verdict = instance.keyrack.verify(key);
      const request = { method: "GET", path: "/", status: 200, durationMs: 1 };
      const context = verdict.ok ? verdict.context : null;
      instance.keyrack.report({ ...request, context, ip: "203.0.113.9", userAgent: "curl/8" });
      await instance.keyrack.close();
      const events = instance.plane.ingest.events as unknown as Record<string, unknown>[];
      return events.map(({ network, user_agent }) => [network, user_agent]);
    };
    expect(await reported({})).toEqual([["203.0.113.0/24", "curl"]]);
    expect(await reported({ clientInfo: false })).toEqual([NONE]);
  });

  it("carry nothing with clientInfo: false, and a throwing getIp fails no request", async () => {
    expect(await send({ clientInfo: false })).toEqual([NONE, NONE, NONE]);
    const getIp = () => {
      throw new Error("the vendor's own bug");
    };
    expect(await send({}, { getIp })).toEqual([[null, "curl"], NONE, NONE]);
    await expect(send({ clientInfo: "no" as never })).rejects.toThrow(/clientInfo must be true or false/);
  });

  it.each([
    ["a promise", async () => "203.0.113.5"],
    ["a rejected promise", async () => Promise.reject(new Error("the vendor's own bug"))],
    ["a list", () => ["203.0.113.5"]],
    ["a number", () => 7],
  ])("carry no network when getIp returns %s, which is logged once", async (_, getIp) => {
    const lines: string[] = [];
    const log = (level: string, message: string) => void (level === "error" && lines.push(message));
    expect(await send({ log }, { getIp: getIp as never })).toEqual([[null, "curl"], NONE, NONE]);
    expect(lines).toEqual(["getIp must return a string or null, and no promise"]);
  });
});
