// Which IP addresses are public: outside every special-purpose block of IANA's registries. Server-side requests go to
// no others, so that no name and no spelling of an address leads into the operator's own network.

import { IPV4, readBareAddress } from "./address.ts";
import { AddressList } from "./address-list.ts";

/** IPv4 blocks that are not public. */
const SPECIAL_IPV4 = new AddressList([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]);

/** Global unicast. Addresses that contain an IPv4 one are outside (mapped, translated) or special (6to4, Teredo). */
const GLOBAL_IPV6 = new AddressList(["2000::/3"]);
/** Blocks in it for protocols, tunnels and documentation. */
const SPECIAL_IPV6 = new AddressList(["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]);

/** For an address in the spelling of a resolver or of a parsed URL. */
export function isPublicAddress(address: string): boolean {
  if (readBareAddress(address) === IPV4) return !SPECIAL_IPV4.includes(address);
  return GLOBAL_IPV6.includes(address) && !SPECIAL_IPV6.includes(address);
}

/**
 * The address in a URL's host; null for a name. Other spellings of an IPv4 address have been normalised by the parser.
 */
export function addressIn(url: URL): string | null {
  const { hostname } = url;
  if (hostname.startsWith("[")) return hostname.slice(1, -1);
  return /^\d+(\.\d+){3}$/.test(hostname) ? hostname : null;
}
