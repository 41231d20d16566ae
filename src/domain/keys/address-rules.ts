// Lists of networks that API keys may be used from. A key without its own list has that of its tenant, together with
// its mode; an empty list allows every address.
import { AddressList } from "../../kernel/network/address-list.ts";
import { canonicalCidrs, type IpMode } from "../../kernel/network/cidr.ts";

/** As stored: JSON lists; null: the tenant's. */
export type StoredList = { allowed_cidrs: string | null; ip_mode: IpMode };
/** Input for a new or changed record; absent fields stay unchanged. */
export type ListInput = { allowed_cidrs?: readonly string[] | null | undefined; ip_mode?: IpMode | undefined };

type AddressRule = { readonly cidrs: readonly string[]; readonly mode: IpMode };

/** Networks in any form that the API accepts, in the form that is stored. */
export function storedCidrs(list: readonly string[]): string {
  return JSON.stringify(canonicalCidrs(list));
}

/** The list after an edit. */
export function editedList<T extends string | null>(
  before: { allowed_cidrs: T; ip_mode: IpMode },
  { allowed_cidrs, ip_mode }: ListInput,
): { allowed_cidrs: T | string; ip_mode: IpMode } {
  const stored = allowed_cidrs === undefined ? before.allowed_cidrs : allowed_cidrs && storedCidrs(allowed_cidrs);
  return { allowed_cidrs: stored as T | string, ip_mode: ip_mode ?? before.ip_mode };
}

/** The list of a new key. */
export function newList(input: ListInput): StoredList {
  return editedList<string | null>({ allowed_cidrs: null, ip_mode: "enforce" }, input);
}

/** Null if every address is allowed. */
export function addressRuleOf(key: StoredList, tenant: StoredList): AddressRule | null {
  const { allowed_cidrs, ip_mode: mode } = key.allowed_cidrs === null ? tenant : key;
  const cidrs = JSON.parse(allowed_cidrs ?? "[]") as string[];
  return cidrs.length === 0 ? null : { cidrs, mode };
}

/** The tenant's list, of a row that has it beside the key's. */
export function tenantList(row: { tenant_allowed_cidrs: string | null; tenant_ip_mode: IpMode | null }): StoredList {
  return { allowed_cidrs: row.tenant_allowed_cidrs, ip_mode: row.tenant_ip_mode ?? "enforce" };
}

/** Whether a rule refuses the address; null is an unknown one. */
export function refusesAddress(rule: AddressRule | null, address: string | null): boolean {
  return rule?.mode === "enforce" && (address === null || !new AddressList(rule.cidrs).includes(address));
}
