// The client's address, compared with a second reading of the same rules: BlockList of node:net, and a plain walk of
// the header from the right.
import type { IncomingMessage } from "node:http";
import { BlockList, isIP, isIPv6 } from "node:net";
import { describe, expect, it } from "vitest";
import { bareAddress, clientAddresses } from "../../src/http/address.ts";
import { withoutPort } from "../../src/kernel/network/address.ts";

const LISTS = [
  [],
  ["10.0.0.0/8"],
  ["10.0.0.5/8", "192.0.2.1", "::ffff:172.16.0.9/108", "198.51.100.0/024"],
  ["fd00::7/8", "2001:db8::/33", "::1"],
  ["::/0"],
  ["0.0.0.0/0", "::ffff:0:0/95"],
];
const PEERS = ["10.1.2.3", "::ffff:10.0.0.1", "203.0.113.7", "fd00::1", "::1", ""];
const HEADERS = [
  undefined,
  "",
  "198.51.100.1",
  "198.51.100.1:4711",
  "[2001:db8::9]:443, 10.0.0.2",
  "127.0.0.1, 1.1.1.1, 198.51.100.1",
  "203.0.113.9, 192.0.2.1",
  "10.0.0.3, 10.0.0.2",
  "198.51.100.1, <script>",
  "<script>, 10.0.0.2",
  "::ffff:203.0.113.5, 172.16.255.1",
  "::ffff:a00:1",
  "2001:db8:7fff::1, fe80::1%eth0",
  "2001:DB8:0:0::1 ,\t010.0.0.1",
  "10.0.0.2,, 10.0.0.1",
];

function expected(trustProxy: readonly string[], peer: string, header: string | undefined): [string, string | null] {
  const list = new BlockList();
  for (const cidr of trustProxy) {
    const [address = "", bits] = cidr.split("/");
    const family = isIPv6(address) ? "ipv6" : "ipv4";
    list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  const isTrusted = (one: string): boolean => isIP(one) !== 0 && list.check(one, isIPv6(one) ? "ipv6" : "ipv4");
  const from = bareAddress(peer);
  if (!isTrusted(from)) return [from, from];
  const hops = (header ?? "").split(",").map((hop) => bareAddress(withoutPort(hop.trim())));
  const last = hops.findLast((hop) => !isTrusted(hop)) ?? hops[0] ?? "";
  const client = isIP(last) === 0 ? null : last;
  return [client === null || isTrusted(client) ? from : client, client];
}

describe("the client's address", () => {
  for (const list of LISTS) {
    it(`is that of node:net where ${list.join(", ") || "no proxy"} is trusted`, () => {
      const { addressOf, clientOf } = clientAddresses(list);
      for (const peer of PEERS) {
        for (const header of HEADERS) {
          const headers = header === undefined ? {} : { "x-forwarded-for": header };
          const request = { socket: { remoteAddress: peer }, headers } as unknown as IncomingMessage;
          const found = [addressOf(request), clientOf(request)];
          expect(found, `${peer} ${header}`).toEqual(expected(list, peer, header));
        }
      }
    });
  }
});
