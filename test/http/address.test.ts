// The client's address: the peer's, or behind trusted proxies the right-most one that is not a proxy.
import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { clientAddresses, networkOf } from "../../src/http/address.ts";

const seen = (trusted: string[], peer: string, forwarded?: string): [string, string | null] => {
  const { addressOf, clientOf } = clientAddresses(trusted);
  const request = {
    socket: { remoteAddress: peer },
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
  } as unknown as IncomingMessage;
  return [addressOf(request), clientOf(request)];
};

describe("the client's address", () => {
  for (const [why, trusted, peer, forwarded, want, judged = want] of [
    ["no proxy is trusted", [], "203.0.113.7", "198.51.100.1", "203.0.113.7"],
    ["the peer is not the proxy", ["10.0.0.0/8"], "203.0.113.7", "198.51.100.1", "203.0.113.7"],
    ["the proxy sends no header", ["10.0.0.0/8"], "10.0.0.1", undefined, "10.0.0.1", null],
    ["the proxy names its peer", ["10.0.0.0/8"], "10.0.0.1", "198.51.100.1", "198.51.100.1"],
    [
      "the caller forged entries before it",
      ["10.0.0.0/8"],
      "10.0.0.1",
      "127.0.0.1, 1.1.1.1, 198.51.100.1",
      "198.51.100.1",
    ],
    [
      "two trusted proxies are chained",
      ["10.0.0.0/8", "192.0.2.1"],
      "10.0.0.1",
      "198.51.100.1, 192.0.2.1",
      "198.51.100.1",
    ],
    ["all of them are trusted", ["10.0.0.0/8"], "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.1", "10.0.0.3"],
    ["the header is malformed", ["10.0.0.0/8"], "10.0.0.1", "198.51.100.1, <script>", "10.0.0.1", null],
    ["the header is empty", ["10.0.0.0/8"], "10.0.0.1", "", "10.0.0.1", null],
    ["the peer is IPv4 in IPv6", ["10.0.0.0/8"], "::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"],
    ["the proxy adds the port", ["10.0.0.0/8"], "10.0.0.1", "198.51.100.1:4711", "198.51.100.1"],
    ["the proxy adds the port to IPv6", ["10.0.0.0/8"], "10.0.0.1", "[2001:db8::9]:443", "2001:db8::9"],
    ["everything is IPv6", ["fd00::/8"], "fd00::1", "2001:db8::9", "2001:db8::9"],
  ] as const) {
    it(`is ${want} when ${why}; lists are judged by ${judged ?? "none"}`, () => {
      expect(seen([...trusted], peer, forwarded)).toEqual([want, judged]);
    });
  }

  it("counts as a network of /24 or /64", () => {
    expect(networkOf("198.51.100.77")).toBe("198.51.100.0/24");
    expect(networkOf("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
    expect(networkOf("2001:db8::1")).toBe("2001:db8:0:0::/64");
    expect(networkOf("2001:0DB8:0::0:1")).toBe("2001:db8:0:0::/64");
    expect(networkOf("::ffff:c633:644d")).toBe("198.51.100.0/24");
  });
});
