// Reads IP addresses into numbers. The result is left in `ADDRESS`, so that judging a request allocates nothing; IPv4
// in IPv6 becomes IPv4, because a dual-stack socket reports its IPv4 peers in that form. bench: verify/address-list

export const NOT_AN_ADDRESS = 0;
export const IPV4 = 4;
export const IPV6 = 6;
export type Family = typeof IPV4 | typeof IPV6;

/** The address that was read last: four words, or for IPv4 one. Caution: use it before the next call. */
export const ADDRESS = new Uint32Array(4);

const GROUPS = new Uint16Array(8);
const [DOT, COLON, ZERO] = [".", ":", "0"].map((one) => one.charCodeAt(0)) as [number, number, number];
const MAPPED = 0xffff;
const PORT = /^(?:\[([^[\]:]*:[^[\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/;

/** The address of a client: with a zone or a port, which are dropped. */
export function readAddress(text: string): Family | typeof NOT_AN_ADDRESS {
  const family = readBareAddress(text);
  if (family !== NOT_AN_ADDRESS) return unmap(family);
  const host = withoutPort(text);
  return unmap(readBareAddress(host.includes(":") ? host.replace(/%.+/s, "") : host));
}

/** The address of `ipv4:port` and `[ipv6]:port`; any other text as it is. */
export function withoutPort(text: string): string {
  const [, ipv6, ipv4] = PORT.exec(text) ?? [];
  return ipv6 ?? ipv4 ?? text;
}

/** An address and nothing else. IPv4 in IPv6 stays IPv6. */
export function readBareAddress(text: string): Family | typeof NOT_AN_ADDRESS {
  const ipv4 = readIpv4(text, 0);
  if (ipv4 >= 0) {
    ADDRESS[0] = ipv4;
    return IPV4;
  }
  if (!readGroups(text)) return NOT_AN_ADDRESS;
  for (let i = 0; i < 4; i++) ADDRESS[i] = ((GROUPS[2 * i] as number) << 16) | (GROUPS[2 * i + 1] as number);
  return IPV6;
}

/** Whether the words are those of an IPv4 address in IPv6. */
export function isMapped(words: ArrayLike<number>): boolean {
  return words[0] === 0 && words[1] === 0 && words[2] === MAPPED;
}

function unmap(family: Family | typeof NOT_AN_ADDRESS): Family | typeof NOT_AN_ADDRESS {
  if (family !== IPV6 || !isMapped(ADDRESS)) return family;
  ADDRESS[0] = ADDRESS[3] as number;
  return IPV4;
}

/** The dotted quad from `at` to the end, or -1. Leading zeros are refused: some parsers read them as octal. */
function readIpv4(text: string, at: number): number {
  let address = 0;
  let part = -1;
  let parts = 0;
  for (let i = at; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === DOT) {
      if (part < 0 || ++parts > 3) return -1;
      address = address * 256 + part;
      part = -1;
      continue;
    }
    const digit = code - ZERO;
    if (digit < 0 || digit > 9 || part === 0) return -1;
    part = part < 0 ? digit : part * 10 + digit;
    if (part > 255) return -1;
  }
  return parts === 3 && part >= 0 ? address * 256 + part : -1;
}

/** The eight groups of an IPv6 address; the last two may be a dotted quad. */
function readGroups(text: string): boolean {
  GROUPS.fill(0);
  let count = 0;
  let gap = -1;
  let at = 0;
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return false;
    gap = 0;
    at = 2;
  }
  while (at < text.length) {
    const start = at;
    let group = 0;
    for (let hex = hexDigit(text.charCodeAt(at)); hex >= 0; hex = hexDigit(text.charCodeAt(++at))) {
      group = group * 16 + hex;
      if (at - start === 4) return false;
    }
    if (text.charCodeAt(at) === DOT) {
      const ipv4 = readIpv4(text, start);
      if (ipv4 < 0 || count > 6) return false;
      GROUPS[count++] = ipv4 >>> 16;
      GROUPS[count++] = ipv4 & 0xffff;
      break;
    }
    if (at === start || count === 8) return false;
    GROUPS[count++] = group;
    if (at === text.length) break;
    if (text.charCodeAt(at) !== COLON || ++at === text.length) return false;
    if (text.charCodeAt(at) !== COLON) continue;
    if (gap >= 0) return false;
    gap = count;
    at++;
  }
  return gap < 0 ? count === 8 : count < 8 && openGap(gap, count);
}

/** Moves the groups after `::` to the end. */
function openGap(gap: number, count: number): true {
  for (let i = 1; i <= count - gap; i++) {
    const group = GROUPS[count - i] as number;
    GROUPS[count - i] = 0;
    GROUPS[8 - i] = group;
  }
  return true;
}

/** -1 for any other character, and for NaN after the end. */
function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
