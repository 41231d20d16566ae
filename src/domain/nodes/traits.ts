// What a poll shows of a node, as it is stored, and of which environments the node holds keys.
import type { Env } from "../../kernel/credentials.ts";
import { capabilitiesIn } from "../../kernel/policy/capabilities.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";

/**
 * A node as its poll shows it: the capabilities that it announces, whether its secret key is unrestricted, and its
 * library.
 */
export type PollingNode = {
  node_id: string;
  env_scope: EnvScope;
  caps: number;
  full_power: boolean;
  sdk: string | null;
  /** The account of its secret key. */
  account_id?: string | null | undefined;
};

/** How many nodes announce the same capabilities, by these as stored. */
export type NodesByCaps = ReadonlyMap<string, number>;

/** What a poll shows of a node, apart from its version. */
export type NodeTraits = Pick<PolicyNodeRow, "caps" | "full_power" | "sdk">;

export function traitsOf({ caps, full_power, sdk }: PollingNode): NodeTraits {
  return { caps: textOf(caps), full_power: Number(full_power), sdk };
}

export function hasTraits(a: NodeTraits, b: NodeTraits): boolean {
  return a.caps === b.caps && a.full_power === b.full_power && a.sdk === b.sdk;
}

/** Whether the node holds keys of this environment, or of either where it is null. */
export function holdsKeysOf(env: Env | null, scope: EnvScope): boolean {
  return env === null || scope === "all" || scope === env;
}

/** The environment whose bound and owner a node counts for: one of both environments holds live keys. */
export const envOf = (scope: EnvScope): Env => (scope === "test" ? "test" : "live");

/** The values of `envOf` for nodes that may hold keys of this environment, or of either if it is null. */
export function envsOfHolders(env: Env | null): readonly Env[] {
  return env === "live" ? ["live"] : ["live", "test"];
}

/** The stored text of each set of capabilities, memoized. */
const TEXTS: string[] = [];

function textOf(caps: number): string {
  return (TEXTS[caps] ??= capabilitiesIn(caps).join(","));
}
