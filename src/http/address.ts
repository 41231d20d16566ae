// The client's address: the socket's peer, or behind trusted proxies the right-most X-Forwarded-For entry that is not one
// of them. The header is ignored when it comes from any other peer.
import { BlockList, isIP, isIPv6 } from "node:net";
import { prefixOf } from "../fairness/owners.ts";
import type { HttpRequest } from "./request.ts";

function toBlockList(cidrs: readonly string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [address = "", bits] = cidr.split("/");
    const family = isIPv6(address) ? "ipv6" : "ipv4";
    list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  return list;
}

/** Without the IPv4-in-IPv6 prefix and the zone. */
export function bareAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
}

export function clientAddress(
  trustProxy: readonly string[],
): (request: Pick<HttpRequest, "socket" | "headers">) => string {
  const trusted = toBlockList(trustProxy);
  const isTrusted = (address: string): boolean =>
    isIP(address) !== 0 && trusted.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  return ({ socket, headers }) => {
    const peer = bareAddress(socket.remoteAddress ?? "");
    if (trustProxy.length === 0 || !isTrusted(peer)) return peer;
    const header = headers["x-forwarded-for"];
    const hops = String(header ?? "")
      .split(",")
      .map((hop) => bareAddress(hop.trim()));
    for (const hop of hops.toReversed()) {
      if (isIP(hop) === 0) return peer; // malformed: the last address we can trust is the proxy itself
      if (!isTrusted(hop)) return hop;
    }
    return peer;
  };
}

/** What throttles count: the /24 of an IPv4 address, the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  return prefixOf(address, 64);
}
