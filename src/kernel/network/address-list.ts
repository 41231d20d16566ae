// A list of networks, prepared for judging addresses: sorted, without networks inside others, as plain numbers. Two
// networks are either disjoint or one contains the other, so the last one that begins at or before an address decides,
// and a binary search finds it. bench: verify/address-list

import { ADDRESS, IPV4, NOT_AN_ADDRESS, readAddress } from "./address.ts";
import { type Cidr, maskOfWord, readCidr } from "./cidr.ts";

const NONE: readonly number[] = [];
/**
 * An IPv4 network is one number, `first address * IPV4_UNIT + bits`: half the memory of two. bench:
 * verify/address-list-memory
 */
const IPV4_UNIT = 64;
/** Numbers of an IPv6 network: four words and the bits. */
const IPV6_FIELDS = 5;

export class AddressList {
  readonly #ipv4: readonly number[];
  readonly #ipv6: readonly number[];

  /** Throws a TypeError for an entry that is not a network. */
  constructor(cidrs: readonly string[]) {
    const networks = cidrs.map(readCidr).toSorted(byStart);
    const outer = networks.filter((one, i) => !networks.slice(0, i).some((other) => contains(other, one)));
    this.#ipv4 = compact(
      outer.flatMap(({ family, words: [first = 0], bits }) => (family === IPV4 ? [first * IPV4_UNIT + bits] : [])),
    );
    this.#ipv6 = compact(outer.flatMap(({ family, words, bits }) => (family === IPV4 ? [] : [...words, bits])));
  }

  /** False for text that is not an address. IPv4 is judged by IPv4 networks only, IPv6 by IPv6 ones. */
  includes(address: string): boolean {
    const family = readAddress(address);
    return family === IPV4 ? this.#includesIpv4() : family !== NOT_AN_ADDRESS && this.#includesIpv6();
  }

  #includesIpv4(): boolean {
    const list = this.#ipv4;
    const address = ADDRESS[0] as number;
    const from = (address + 1) * IPV4_UNIT; // of networks that begin after the address
    let [low, high] = [0, list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((list[middle] as number) < from) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return false;
    const network = list[low - 1] as number;
    const bits = network % IPV4_UNIT;
    return ((((network - bits) / IPV4_UNIT) ^ address) & maskOfWord(bits, 0)) === 0;
  }

  #includesIpv6(): boolean {
    const list = this.#ipv6;
    let [low, high] = [0, list.length / IPV6_FIELDS];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (beginsAfterAddress(list, middle * IPV6_FIELDS)) high = middle;
      else low = middle + 1;
    }
    if (low === 0) return false;
    const at = (low - 1) * IPV6_FIELDS;
    const bits = list[at + 4] as number;
    for (let i = 0; i < 4; i++)
      if ((((list[at + i] as number) ^ (ADDRESS[i] as number)) & maskOfWord(bits, i)) !== 0) return false;
    return true;
  }
}

/** Without room to grow. bench: verify/address-list-memory */
function compact(numbers: readonly number[]): readonly number[] {
  return numbers.length === 0 ? NONE : numbers.slice();
}

function beginsAfterAddress(list: readonly number[], at: number): boolean {
  for (let i = 0; i < 4; i++) {
    const difference = (list[at + i] as number) - (ADDRESS[i] as number);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

/** Wider networks first among those with the same start. */
function byStart(a: Cidr, b: Cidr): number {
  const differing = a.words.findIndex((word, i) => word !== b.words[i]);
  return differing < 0 ? a.bits - b.bits : (a.words[differing] as number) - (b.words[differing] as number);
}

function contains(outer: Cidr, inner: Cidr): boolean {
  if (outer.family !== inner.family || outer.bits > inner.bits) return false;
  return outer.words.every((word, i) => ((word ^ (inner.words[i] as number)) & maskOfWord(outer.bits, i)) === 0);
}
