// Keys that are confined to networks, in the library: the client's address, the order of checks, and what is reported.
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { protect as protectFetch } from "../../src/sdk/adapters/fetch.ts";
import { protect } from "../../src/sdk/adapters/node.ts";
import type { Keyrack } from "../../src/sdk/instance.ts";
import type { Verdict } from "../../src/sdk/context.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";

const LIST = { allowed_cidrs: ["203.0.113.0/24", "2001:db8::/32"], ip_mode: "enforce" as const };
const RULE = { id: "one", limit: 1, window_ms: 60_000, algorithm: "fixed", scope: "key" } as const;
const code = (verdict: Verdict): string => (verdict.ok ? "200" : `${verdict.status} ${verdict.code}`);

/** Serves on a port, or on a Unix socket. */
async function serve(keyrack: Keyrack, path?: string) {
  const server = createServer(protect(keyrack, {}, (_req, res) => res.end("in")));
  server.listen(path ?? { port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const target = path === undefined ? { port: (server.address() as AddressInfo).port } : { socketPath: path };
  return {
    async get(key: string, forwardedFor?: string | string[]): Promise<number> {
      const headers = { authorization: `Bearer ${key}`, ...(forwardedFor && { "x-forwarded-for": forwardedFor }) };
      const [response] = await once(request({ ...target, headers }).end(), "response");
      response.resume();
      return response.statusCode;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

describe("a key that is confined to networks", () => {
  it("is judged after expiry and disabling and before scopes, and by a stale policy too", async () => {
    await using plane = await FakeControlPlane.start();
    const keys = [
      plane.mint({ ...LIST, expires_at: "2020-01-01T00:00:00.000Z" }),
      plane.mint({ ...LIST, disabled: "key" }),
      plane.mint({ ...LIST, disabled: "tenant" }),
      plane.mint(LIST),
      plane.mint({ ...LIST, ip_mode: "report" }),
    ];
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, options: { failMode: "open" } });
    const codes = (ip: string | null) =>
      keys.map(({ key }) => code(instance.keyrack.verify(key, { scopes: ["missing"], ip })));
    const ended = ["401 expired_key", "403 key_disabled", "403 tenant_suspended"];
    const lacking = "403 insufficient_scope";
    for (const ip of ["198.51.100.1", "::ffff:198.51.100.1", "2001:db9::1", "nonsense", "", null])
      expect(codes(ip)).toEqual([...ended, "403 ip_not_allowed", lacking]);
    for (const ip of ["203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9:80", "2001:db8::1%eth0", "[2001:db8::1]:443"])
      expect(codes(ip)).toEqual([...ended, lacking, lacking]);
    expect(code(instance.keyrack.verify(keys[3]?.key, { ip: 5 as never }))).toBe("403 ip_not_allowed");
    await plane.down();
    ports.advance(86_400_000 + 60_000); // older than maxStaleMs
    expect(codes("198.51.100.1")).toEqual([...ended, "403 ip_not_allowed", "200"]);
    expect(codes("203.0.113.9")).toEqual([...ended, "200", "200"]);
  });

  it("is refused with one warning where the application does not know the client's address", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint(LIST);
    const reported = instance.plane.mint({ ...LIST, ip_mode: "report" });
    await until(() => instance.keyrack.status().keys === 2);
    const warnings = () => instance.lines.filter(({ level }) => level === "warn").map(({ message }) => message);
    expect(code(instance.keyrack.verify(key, { ip: "198.51.100.1" }))).toBe("403 ip_not_allowed");
    expect(code(instance.keyrack.verify(reported.key))).toBe("200");
    expect(warnings()).toEqual([]);
    const serve = protectFetch(instance.keyrack, {}, () => new Response("in"));
    for (let i = 0; i < 2; i++) {
      expect((await serve(new Request("http://app/", { headers: { "x-api-key": key } }))).status).toBe(403);
      expect(code(instance.keyrack.verify(key))).toBe("403 ip_not_allowed");
    }
    expect(warnings()).toEqual([expect.stringContaining("set trustedProxies or getIp")]);
  });

  it("works behind trusted proxies from the address that they saw, whatever the client claims, and is charged nothing else", async () => {
    await using instance = await startTestKeyrack({ options: { trustedProxies: ["127.0.0.1", "10.0.0.0/8"] } });
    const { key } = instance.plane.mint({ ...LIST, rate_limits: [{ ...RULE, limit: 100 }] });
    const proxied = instance.plane.mint({ ...LIST, allowed_cidrs: ["127.0.0.0/8"] });
    await until(() => instance.keyrack.status().keys === 2);
    await using app = await serve(instance.keyrack);
    expect(await app.get(proxied.key)).toBe(403); // the proxy's own address is in the list, but names no client
    for (const forwarded of [
      undefined,
      "203.0.113.9, 198.51.100.1",
      ["203.0.113.9", "198.51.100.1, 10.0.0.3"],
      "203.0.113.9, nonsense",
      "203.0.113.9,",
      "203.0.113.9, 127.0.0.1, unix",
    ])
      expect([forwarded, await app.get(key, forwarded)]).toEqual([forwarded, 403]);
    expect(instance.plane.limits.checks).toEqual([]);
    for (const forwarded of ["203.0.113.9", "198.51.100.1, 203.0.113.9, 10.0.0.3", ["198.51.100.1", "203.0.113.9"]])
      expect([forwarded, await app.get(key, forwarded)]).toEqual([forwarded, 200]);
    expect(instance.plane.limits.checks).toHaveLength(3);
  });

  it("works behind a Unix socket only where its peer is trusted", async () => {
    const folder = await mkdtemp(join(tmpdir(), "keyrack-peer-"));
    try {
      for (const [trustedProxies, status] of [
        [["unix"], 200],
        [["127.0.0.1"], 403],
      ] as const) {
        await using instance = await startTestKeyrack({ options: { trustedProxies } });
        const { key } = instance.plane.mint(LIST);
        await until(() => instance.keyrack.status().keys === 1);
        await using app = await serve(instance.keyrack, join(folder, `s${status}`));
        expect([await app.get(key, "203.0.113.9"), await app.get(key)]).toEqual([status, 403]);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("keeps its list when the profiles of other keys differ in nothing else, and when the list changes", async () => {
    await using plane = await FakeControlPlane.start();
    const lists = [undefined, ["10.0.0.0/8"], ["10.0.0.0/16"], ["10.0.0.0/8", "11.0.0.0/8"]];
    const keys = lists.map((cidrs) => plane.mint(cidrs ? { allowed_cidrs: cidrs, ip_mode: "enforce" } : {}).key);
    const report = plane.mint({ allowed_cidrs: ["10.0.0.0/8"], ip_mode: "report" }).key;
    await using instance = await startTestKeyrack({ plane });
    const from = (ip: string) => [...keys, report].map((key) => instance.keyrack.verify(key, { ip }).ok);
    expect(from("10.1.0.1")).toEqual([true, true, false, true, true]);
    expect(from("11.0.0.1")).toEqual([true, false, false, true, true]);
    expect(from("12.0.0.1")).toEqual([true, false, false, false, true]);
    plane.feed.upsert(report, { ip_mode: "enforce" });
    plane.feed.upsert(keys[1] ?? "", { allowed_cidrs: ["12.0.0.0/8"] });
    await until(() => instance.keyrack.verify(keys[1] ?? "", { ip: "12.0.0.1" }).ok);
    expect(from("12.0.0.1")).toEqual([true, true, false, false, false]);
  });

  it("is confined by a policy from the cache file too", async () => {
    const folder = await mkdtemp(join(tmpdir(), "keyrack-lists-"));
    const options = { cacheFile: join(folder, "policy") };
    try {
      await using plane = await FakeControlPlane.start();
      const { key } = plane.mint(LIST);
      const first = await startTestKeyrack({ plane, options });
      await first.keyrack.close();
      await plane.down();
      await using again = await startTestKeyrack({ plane, options });
      const codes = ["203.0.113.9", "198.51.100.1"].map((ip) => code(again.keyrack.verify(key, { ip })));
      expect(codes).toEqual(["200", "403 ip_not_allowed"]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe("requests from outside a key's networks are reported with their network", () => {
  it("by protect and by report, admitted or refused; others without one", async () => {
    await using instance = await startTestKeyrack();
    const enforced = instance.plane.mint(LIST);
    const reported = instance.plane.mint({ ...LIST, ip_mode: "report" });
    await until(() => instance.keyrack.status().keys === 2);
    await using app = await serve(instance.keyrack);
    expect([await app.get(enforced.key), await app.get(reported.key)]).toEqual([403, 200]);
    const request = { method: "GET", path: "/", status: 200, durationMs: 1 };
    for (const ip of ["198.51.100.77", "2001:db9:1:2::3", "203.0.113.9", null]) {
      for (const { key } of [enforced, reported]) {
        const verdict = instance.keyrack.verify(key, { ip });
        instance.keyrack.report({ ...request, ...(verdict.ok ? { context: verdict.context } : { denial: verdict }) });
      }
    }
    expect(instance.keyrack.verify("", { ip: null })).toMatchObject({ code: "missing_key" });
    await instance.keyrack.close();
    const shown = instance.plane.ingest.events.map((event) => [
      event.key_id === enforced.id ? "enforced" : event.key_id === reported.id ? "reported" : event.key_id,
      event.denial_reason,
      event.would_deny,
      event.network,
    ]);
    const refused = (network: string | null) => ["enforced", "ip_not_allowed", undefined, network];
    const noted = (network: string | null) => ["reported", null, "ip_not_allowed", network];
    // Refused requests wait apart from admitted ones, so the order of both is not theirs.
    const inOrder = (rows: unknown[]): unknown[] =>
      rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    expect(inOrder(shown)).toEqual(
      inOrder([
        refused("127.0.0.0/24"),
        noted("127.0.0.0/24"),
        refused("198.51.100.0/24"),
        noted("198.51.100.0/24"),
        refused("2001:db9:1::/48"),
        noted("2001:db9:1::/48"),
        ["enforced", null, undefined, undefined],
        ["reported", null, undefined, undefined],
        refused(null),
        noted(null),
      ]),
    );
    const line = instance.lines.find(({ fields }) => fields["why"] === "ip_not_allowed");
    expect([line?.level, line?.fields["network"]]).toEqual(["debug", "127.0.0.0/24"]);
    expect(JSON.stringify([instance.lines, instance.plane.ingest.events])).not.toMatch(
      /127\.0\.0\.1|198\.51\.100\.77|db9:1:2/,
    );
  });
});

describe("options about addresses", () => {
  it("are refused at start when they are wrong", async () => {
    for (const trustedProxies of [["10.0.0.1/8"], ["proxy.local"], "10.0.0.1", [1], Array(101).fill("10.0.0.1")])
      await expect(startTestKeyrack({ options: { trustedProxies: trustedProxies as string[] } })).rejects.toThrow(
        /trustedProxies/,
      );
    await using instance = await startTestKeyrack({ options: { trustedProxies: ["unix", "::1"] } });
    expect(() => protect(instance.keyrack, { getIp: "x" as never }, () => {})).toThrow(/getIp must be a function/);
  });
});
