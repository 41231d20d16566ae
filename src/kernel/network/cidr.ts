// Networks in CIDR notation, in one canonical form (RFC 5952, always with the number of bits): what is stored, sent to
// nodes and compared is the same text. The server, the library and the gateway read networks with this file only.

import { ADDRESS, type Family, IPV4, IPV6, isMapped, NOT_AN_ADDRESS, readAddress, readBareAddress } from "./address.ts";

export const CIDRS_MAX = 50;
const CIDR_CHARS_MAX = 64;

/** Modes of an address list: `report` admits every address, and reports requests from outside the list. */
export const IP_MODES = ["enforce", "report"] as const;
export type IpMode = (typeof IP_MODES)[number];

/** Four words; those of an IPv4 network after the first are 0. */
export type Cidr = { family: Family; words: readonly number[]; bits: number };

const MAPPED_BITS = 96;
/** The words of ::ffff:0:0, where the mapped IPv4 addresses begin. */
const MAPPED = [0, 0, 0xffff, 0];
const BITS = /^(?:0|[1-9]\d{0,2})$/;
const WIDTH = { [IPV4]: 32, [IPV6]: 128 };
const FORM = "must be an IPv4 or IPv6 address or network, such as 203.0.113.0/24 or 2001:db8::/32";

/** The network, or what is wrong with the text. */
function parseCidr(text: string): Cidr | string {
  if (text.length > CIDR_CHARS_MAX) return `must have at most ${CIDR_CHARS_MAX} characters`;
  const cidr = splitCidr(text);
  if (typeof cidr === "string") return cidr;
  const { words, bits } = cidr;
  if (words.some((word, i) => (word & ~maskOfWord(bits, i)) !== 0))
    return "has bits set beyond its mask: give the first address of the network";
  if (isMappedIpv6(cidr) && bits < MAPPED_BITS)
    return `must have at least ${MAPPED_BITS} bits, because it maps IPv4 addresses`;
  return unmap(cidr);
}

/**
 * The networks that a setting of the server names, or null. There bits beyond the mask are ignored, and an IPv6 network
 * that contains the mapped IPv4 addresses contains all of IPv4.
 */
export function parseSettingNetwork(text: string): string[] | null {
  const cidr = splitCidr(text.replace(/%[^/]+/, "").replace(/\/0+(?=\d)/, "/"));
  if (typeof cidr === "string") return null;
  const { family, bits } = cidr;
  const words = cidr.words.map((word, i) => (word & maskOfWord(bits, i)) >>> 0);
  const coversIpv4 =
    family === IPV6 &&
    bits < MAPPED_BITS &&
    words.every((word, i) => ((word ^ (MAPPED[i] as number)) & maskOfWord(bits, i)) === 0);
  return [formatCidr(unmap({ family, words, bits })), ...(coversIpv4 ? ["0.0.0.0/0"] : [])];
}

/** As it is written: with bits beyond the mask, and IPv4 in IPv6 as IPv6. */
function splitCidr(text: string): Cidr | string {
  const [address = "", suffix, more] = text.split("/");
  const family = readBareAddress(address);
  if (family === NOT_AN_ADDRESS || more !== undefined) return FORM;
  const words = family === IPV4 ? [ADDRESS[0] as number, 0, 0, 0] : [...ADDRESS];
  const bits = suffix === undefined ? WIDTH[family] : BITS.test(suffix) ? Number(suffix) : -1;
  return bits < 0 || bits > WIDTH[family] ? `must have 0 to ${WIDTH[family]} bits` : { family, words, bits };
}

const isMappedIpv6 = ({ family, words }: Cidr): boolean => family === IPV6 && isMapped(words);

function unmap(cidr: Cidr): Cidr {
  if (!isMappedIpv6(cidr)) return cidr;
  return { family: IPV4, words: [cidr.words[3] as number, 0, 0, 0], bits: cidr.bits - MAPPED_BITS };
}

/** The mask of the word with this index, for a network of `bits` bits. */
export function maskOfWord(bits: number, index: number): number {
  const within = bits - 32 * index;
  return within >= 32 ? -1 : within <= 0 ? 0 : -1 << (32 - within);
}

function formatCidr({ family, words, bits }: Cidr): string {
  return `${family === IPV4 ? formatIpv4(words[0] as number) : formatIpv6(words)}/${bits}`;
}

/** The canonical form of networks that are known to be valid. */
export function canonicalCidrs(list: readonly string[]): string[] {
  return list.map((text) => formatCidr(readCidr(text)));
}

/** Throws a TypeError for a text that is not a network. */
export function readCidr(text: string): Cidr {
  const cidr = parseCidr(text);
  if (typeof cidr === "string") throw new TypeError(`a network ${cidr}`);
  return cidr;
}

type CidrProblem = { index: number; message: string };

/** What is wrong with the entries of a list, repetitions included. */
export function cidrProblems(list: readonly string[]): CidrProblem[] {
  const seen = new Set<string>();
  return list.flatMap((text, index) => {
    const cidr = parseCidr(text);
    if (typeof cidr === "string") return [{ index, message: cidr }];
    const canonical = formatCidr(cidr);
    if (seen.size === seen.add(canonical).size) return [{ index, message: "repeats an entry" }];
    return [];
  });
}

/** The network of a client that may be stored and shown: an address itself would be personal data. */
const SHOWN_BITS = { [IPV4]: 24, [IPV6]: 48 };

/** The address cut to its /24 (IPv4) or /48 (IPv6); null if it is not an address. */
export function networkOfAddress(address: string | null): string | null {
  const family = address === null ? NOT_AN_ADDRESS : readAddress(address);
  if (family === NOT_AN_ADDRESS) return null;
  const bits = SHOWN_BITS[family];
  const words = [...ADDRESS].map((word, i) => (word & maskOfWord(bits, i)) >>> 0);
  return formatCidr({ family, words, bits });
}

const SHOWN_IPV4 = /^(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}0\/24$/;
/** Zeros before the last group that is not are written out, because the longest run is at the end. */
const SHOWN_IPV6 = /^(?:(?:(?:0|[1-9a-f][\da-f]{0,3}):){0,2}[1-9a-f][\da-f]{0,3})?::\/48$/;

/** Whether a text is what `networkOfAddress` returns. Without parsing it: every event of a batch may name one. */
export function isShownNetwork(text: string): boolean {
  return SHOWN_IPV4.test(text) || SHOWN_IPV6.test(text);
}

function formatIpv4(word: number): string {
  return [word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255].join(".");
}

/** Lower-case without leading zeros; the first of the longest runs of two or more zero groups is `::`. */
function formatIpv6(words: readonly number[]): string {
  const groups = words.flatMap((word) => [word >>> 16, word & 0xffff]);
  let [from, length] = [0, 1];
  for (let i = 0; i < groups.length; i++) {
    let end = i;
    while (groups[end] === 0) end++;
    if (end - i > length) [from, length] = [i, end - i];
    i = Math.max(i, end);
  }
  const text = (some: readonly number[]): string => some.map((group) => group.toString(16)).join(":");
  return length < 2 ? text(groups) : `${text(groups.slice(0, from))}::${text(groups.slice(from + length))}`;
}
