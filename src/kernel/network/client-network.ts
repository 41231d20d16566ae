// The network of a client that its key's last use shows: a /24 or /48, and none if that says nothing about the
// client. The library cuts the address before it leaves the process; the server takes no other form.

import { AddressList } from "./address-list.ts";
import { networkOfAddress } from "./cidr.ts";

/** Private, loopback and link-local. */
const LOCAL = new AddressList([
  "10.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::/48",
  "fc00::/7",
  "fe80::/10",
]);

export function clientNetworkOf(address: string | null): string | null {
  return address === null || LOCAL.includes(address) ? null : networkOfAddress(address);
}

/** Whether a network, as it is shown, is one that `clientNetworkOf` returns for some address. */
export function isClientNetwork(shown: string): boolean {
  return !LOCAL.includes(shown.slice(0, shown.indexOf("/")));
}

/** A product name, which ends at the first `/` or space of a user agent. */
const PRODUCT = /^[A-Za-z0-9._-]{1,32}(?=[/ ]|$)/;

/** Null for any other text: clients choose their user agent freely. */
export function productOf(userAgent: string | null | undefined): string | null {
  return PRODUCT.exec(userAgent ?? "")?.[0] ?? null;
}

export function isProduct(text: string): boolean {
  return productOf(text) === text;
}
