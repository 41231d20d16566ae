// The address of a client behind proxies: what a client writes into headers never decides.
import { describe, expect, it } from "vitest";
import { TrustedProxies } from "../../../src/kernel/network/trusted-proxies.ts";

const proxies = new TrustedProxies(["10.0.0.0/8", "2001:db8::/32", "unix"]);

describe("behind trusted proxies the client is", () => {
  it.each([
    ["the peer, when it is none of them", "203.0.113.9", "198.51.100.1", "203.0.113.9"],
    ["the right-most entry that is none of them", "10.0.0.1", "1.1.1.1, 198.51.100.1, 10.2.0.1", "198.51.100.1"],
    ["not what a client has put on the left", "10.0.0.1", "127.0.0.1, 10.9.9.9, 203.0.113.9", "203.0.113.9"],
    ["the left-most entry, when all are trusted", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["unknown where an entry cannot be read", "10.0.0.1", "198.51.100.1, nonsense", null],
    ["unknown where an entry is empty", "10.0.0.1", "198.51.100.1, ", null],
    ["unknown where the header begins with a comma and all are trusted", "10.0.0.1", ",10.0.0.2", null],
    ["unknown where the header is empty", "10.0.0.1", "", null],
    ["found left of unreadable entries never", "10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", null],
    ["found right of unreadable entries", "10.0.0.1", "unknown, 198.51.100.1", "198.51.100.1"],
    ["read with a port", "10.0.0.1", "203.0.113.9:4711", "203.0.113.9:4711"],
    ["read in brackets, past a trusted IPv6 proxy", "2001:db8::1", "[2a00::9]:443, [2001:db8::2]:80", "[2a00::9]:443"],
    ["behind a mapped peer", "::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["behind a Unix socket", "unix", "203.0.113.9", "203.0.113.9"],
    ["unknown without the header: never the proxy itself", "10.0.0.1", undefined, null],
    ["unknown behind a Unix socket without the header", "unix", undefined, null],
    ["unknown without a peer", null, "203.0.113.9", null],
  ])("%s", (_name, peer, header, client) => {
    expect(proxies.clientOf(peer, header)).toBe(client);
  });

  it("the peer where none are trusted, whatever the headers say; a Unix socket has no address", () => {
    const none = new TrustedProxies([]);
    expect([none.clientOf("10.0.0.1", "1.1.1.1"), none.clientOf("unix", "1.1.1.1")]).toEqual(["10.0.0.1", null]);
  });
});

it("a peer that is always a proxy never counts as the client", () => {
  expect([
    proxies.forwardedBy("203.0.113.9", "198.51.100.1"),
    proxies.forwardedBy("10.0.0.1", undefined),
    proxies.forwardedBy(null, "198.51.100.1"),
    proxies.forwardedBy("10.0.0.1", "10.0.0.9, 198.51.100.1"),
    new TrustedProxies([]).forwardedBy("unix", "198.51.100.1"),
  ]).toEqual([null, null, null, "198.51.100.1", null]);
});

it("entries that are neither networks nor `unix` are refused", () => {
  for (const entry of ["10.0.0.1/8", "localhost", "*", "", "Unix"])
    expect(() => new TrustedProxies(["::1", entry])).toThrow(TypeError);
});
