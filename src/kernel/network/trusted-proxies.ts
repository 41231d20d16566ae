// The address of a client behind proxies. Each proxy appends the address that it saw to X-Forwarded-For, so only the
// entries that trusted proxies wrote can be believed: the header is read from the right, as far as its writers are
// trusted. Everything further left, and every other header, the client can write.

import { NOT_AN_ADDRESS, readAddress } from "./address.ts";
import { AddressList } from "./address-list.ts";
import { UNIX_PEER } from "./unix-peer.ts";

export const TRUSTED_MAX = 100;

export class TrustedProxies {
  readonly #list: AddressList;
  readonly #trustsUnix: boolean;

  /** Networks, and the word `unix`. Throws a TypeError for any other text. */
  constructor(entries: readonly string[]) {
    this.#trustsUnix = entries.includes(UNIX_PEER);
    this.#list = new AddressList(entries.filter((entry) => entry !== UNIX_PEER));
  }

  /**
   * The client of a request from `peer`; null when it is not known. A trusted peer is never the client itself: a proxy
   * that leaves the header out would otherwise lend its own address to everyone.
   */
  clientOf(peer: string | null, forwardedFor: string | null | undefined): string | null {
    if (this.trusts(peer)) return this.#lastUntrusted(forwardedFor);
    return peer === UNIX_PEER ? null : peer;
  }

  /** For a peer that is always a proxy and never the client: null unless it is trusted and names the client. */
  forwardedBy(peer: string | null, forwardedFor: string | null | undefined): string | null {
    return this.trusts(peer) ? this.#lastUntrusted(forwardedFor) : null;
  }

  trusts(peer: string | null): boolean {
    return peer !== null && (peer === UNIX_PEER ? this.#trustsUnix : this.#list.includes(peer));
  }

  /** The left-most entry if all are trusted; null without the header, or if an unreadable entry comes first. */
  #lastUntrusted(header: string | null | undefined): string | null {
    if (typeof header !== "string") return null;
    for (let end = header.length; ; ) {
      const comma = header.lastIndexOf(",", end - 1);
      const entry = header.slice(comma + 1, end).trim();
      if (readAddress(entry) === NOT_AN_ADDRESS) return null;
      if (comma < 0 || !this.#list.includes(entry)) return entry;
      end = comma;
    }
  }
}
