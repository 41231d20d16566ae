// The client's address: the socket's peer, or behind trusted proxies the right-most X-Forwarded-For entry that is not one
// of them. The header is ignored when it comes from any other peer. Where proxies do not name the client, its requests are
// counted for the proxy; a list of networks is never judged by the proxy's address, which would open it to everyone.
import { BlockList, isIP, isIPv6 } from "node:net";
import { prefixOf } from "../fairness/owners.ts";
import { withoutPort } from "../kernel/network/address.ts";
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

type Received = Pick<HttpRequest, "socket" | "headers">;

export type ClientAddresses = {
  /** Whom a request is counted for: the client, or the proxy where no client outside the trusted proxies is known. */
  readonly addressOf: (request: Received) => string;
  /** What a list of networks is judged by; null when unknown. The left-most entry where all are trusted. */
  readonly clientOf: (request: Received) => string | null;
};

export function clientAddresses(trustProxy: readonly string[]): ClientAddresses {
  const trusted = toBlockList(trustProxy);
  const isTrusted = (address: string): boolean =>
    trustProxy.length > 0 && isIP(address) !== 0 && trusted.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  const peerOf = ({ socket }: Received): string => bareAddress(socket.remoteAddress ?? "");
  const clientOf = (request: Received): string | null => {
    const peer = peerOf(request);
    if (!isTrusted(peer)) return peer;
    const hops = String(request.headers["x-forwarded-for"] ?? "")
      .split(",")
      .map((hop) => bareAddress(withoutPort(hop.trim())));
    const last = hops.findLast((hop) => !isTrusted(hop)) ?? hops[0] ?? "";
    return isIP(last) === 0 ? null : last;
  };
  const addressOf = (request: Received): string => {
    const client = clientOf(request);
    return client === null || isTrusted(client) ? peerOf(request) : client;
  };
  return { addressOf, clientOf };
}

/** What throttles count: the /24 of an IPv4 address, the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  return prefixOf(address, 64);
}
