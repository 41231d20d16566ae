// Who a shared resource is charged to. A cell is one environment of a workspace; the account that created the workspace
// owns its cells. A request without a valid credential is charged to the client's network.
import type { Env } from "../kernel/credentials.ts";
import { ADDRESS, IPV4, NOT_AN_ADDRESS, readAddress } from "../kernel/network/address.ts";

export type OwnerKind = "cell" | "account" | "network" | "person" | "address" | "connection";

type OwnerFields = {
  /** Names the owner among all kinds. */
  readonly id: string;
  /** The account of a cell; any other owner is a group of its own. Groups are compared before their members. */
  readonly group: string;
  /** Within its group it is evicted before any other: a test cell must never cost a live one its place. */
  readonly evictedFirst: boolean;
};

export type CellOwner = OwnerFields & { readonly kind: "cell"; readonly workspace_id: string; readonly env: Env };
type SoleOwner = OwnerFields & { readonly kind: Exclude<OwnerKind, "cell"> };
export type Owner = CellOwner | SoleOwner;

/** The part of a workspace's budget that its test cell may use. */
export const TEST_PART = 0.25;

/** `account` is the person who created the workspace; without one the workspace is its own account. */
export function cellOwner(workspace_id: string, env: Env, account: string | null = null): CellOwner {
  return {
    kind: "cell",
    id: `${workspace_id}/${env}`,
    group: account ?? workspace_id,
    evictedFirst: env === "test",
    workspace_id,
    env,
  };
}

/** An owner without cells. `id` must differ from the ids of other kinds. */
export function soleOwner(kind: SoleOwner["kind"], id: string): SoleOwner {
  return { kind, id, group: id, evictedFirst: false };
}

/** The owner of the service's own work, which no request causes. */
export const SERVICE_OWNER = soleOwner("account", "service");

/**
 * The network of a client's address or smaller network: an IPv4 /24 or an IPv6 /48, which is what one customer of a
 * provider gets.
 */
export function networkOwner(address: string): Owner {
  return soleOwner("network", prefixOf(address, 48));
}

/** The /24 of an IPv4 address, or the first `bits` (a multiple of 16) of an IPv6 address, however it is spelled. */
export function prefixOf(address: string, bits: number): string {
  if (!address.includes(":")) return address.replace(/\.\d+$/, ".0/24");
  const family = readAddress(address.replace(/\/\d+$/, ""));
  if (family === NOT_AN_ADDRESS) return address;
  const [ipv4 = 0] = ADDRESS;
  if (family === IPV4) return `${ipv4 >>> 24}.${(ipv4 >>> 16) & 255}.${(ipv4 >>> 8) & 255}.0/24`;
  const groups = [...ADDRESS].flatMap((word) => [word >>> 16, word & 0xffff]);
  const shown = groups.slice(0, bits / 16).map((group) => group.toString(16));
  return `${shown.join(":")}::/${bits}`;
}
