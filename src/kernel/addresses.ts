// Which IP addresses are public: outside every special-purpose block of IANA's registries. Server-side requests go to no
// others, so that no name and no spelling of an address leads into the operator's own network.

/** IPv4 blocks that are not public. */
const SPECIAL: readonly (readonly [network: string, bits: number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

function toNumber(ipv4: string): number {
  return ipv4.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

function isPublicIpv4(address: string): boolean {
  return !SPECIAL.some(([network, bits]) => {
    const size = 2 ** (32 - bits);
    return Math.floor(toNumber(address) / size) === Math.floor(toNumber(network) / size);
  });
}

/**
 * Only global unicast (2000::/3), without the blocks in it for protocols, tunnels and documentation. The first two groups
 * decide. Addresses that contain an IPv4 one are all outside: mapped, translated, 6to4 and Teredo.
 */
function isPublicIpv6(address: string): boolean {
  const [first = 0, second = 0] = address.split(":").map((group) => Number.parseInt(group || "0", 16));
  if (first < 0x2000 || first > 0x3fff || first === 0x2002) return false;
  if (first === 0x2001 && (second < 0x200 || second === 0xdb8)) return false;
  return first !== 0x3fff || second >= 0x1000;
}

/** For an address in the spelling of a resolver or of a parsed URL. */
export function isPublicAddress(address: string): boolean {
  return address.includes(":") ? isPublicIpv6(address) : isPublicIpv4(address);
}

/** The address in a URL's host; null for a name. Other spellings of an IPv4 address have been normalised by the parser. */
export function addressIn(url: URL): string | null {
  const { hostname } = url;
  if (hostname.startsWith("[")) return hostname.slice(1, -1);
  return /^\d+(\.\d+){3}$/.test(hostname) ? hostname : null;
}
