// The client's address: the socket's peer, or behind trusted proxies the right-most X-Forwarded-For entry that is not
// one of them. The header is ignored when it comes from any other peer. If proxies do not name the client, its
// requests are counted for the proxy. An address list is never matched against the proxy's address: everyone would
// pass.
import { prefixOf } from "../fairness/owners.ts";
import { withoutPort } from "../kernel/network/address.ts";
import { parseSettingNetwork } from "../kernel/network/cidr.ts";
import { TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { HttpRequest } from "./request.ts";

/** Without the IPv4-in-IPv6 prefix and the zone. */
export function bareAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
}

type Received = Pick<HttpRequest, "socket" | "headers">;

export type ClientAddresses = {
  /** The address a request is counted for: the client's, or the proxy's if the client is not known. */
  readonly addressOf: (request: Received) => string;
  /** The address to match against address lists; null if unknown. The left-most entry if all are trusted proxies. */
  readonly clientOf: (request: Received) => string | null;
};

export function clientAddresses(trustProxy: readonly string[]): ClientAddresses {
  const proxies = new TrustedProxies(trustProxy.flatMap((network) => parseSettingNetwork(network) ?? []));
  const peerOf = ({ socket }: Received): string => bareAddress(socket.remoteAddress ?? "");
  const clientOf = (request: Received): string | null => {
    const peer = peerOf(request);
    if (trustProxy.length === 0) return peer;
    const client = proxies.clientOf(peer, String(request.headers["x-forwarded-for"] ?? ""));
    return client === null ? null : bareAddress(withoutPort(client));
  };
  const addressOf = (request: Received): string => {
    const client = clientOf(request);
    return client === null || proxies.trusts(client) ? peerOf(request) : client;
  };
  return { addressOf, clientOf };
}

/** What throttles count: the /24 of an IPv4 address, the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  return prefixOf(address, 64);
}
