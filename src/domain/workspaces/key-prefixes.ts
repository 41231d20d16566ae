// The prefix of a project's keys. The first workspace that uses one owns it forever, because a prefix names one issuer:
// secret scanning programmes require that. Existing keys keep theirs when a project changes it.
import { failField } from "../../kernel/errors.ts";
import { OWN_PREFIX, prefixProblem } from "../../kernel/key-prefixes.ts";
import { claimedPrefixes, claimPrefix, prefixOwner } from "../../store/queries/key-prefixes.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { chargedEnvOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { countRecordRefusal } from "../core/record-limit.ts";

export const WORKSPACE_PREFIXES_MAX = 20;
/** How many of them test credentials may claim: a claim is forever, so test must not use up what live needs. */
export const TEST_PREFIXES_MAX = 5;
export const PROJECT_PREFIXES_MAX = 8;

/** Rejects a prefix that no project may have. */
export function requireUsable(prefix: string | undefined): void {
  const problem = prefix === undefined ? null : prefixProblem(prefix);
  if (problem) throw failField("invalid_body", "key_prefix", problem);
}

/** Makes it the workspace's own, unless it is already. */
export async function claimPrefixFor(ctx: Ctx<Vendor>, tx: Tx, prefix: string): Promise<void> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  if (prefix === OWN_PREFIX) return;
  const owner = await prefixOwner.first(tx, { prefix });
  if (owner?.workspace_id === workspace_id) return;
  if (owner) throw prefixTaken();
  const created_env = chargedEnvOf(actor);
  const claimed = await claimedPrefixes.all(tx, { workspace_id });
  const byTest = claimed.filter((other) => other.created_env === "test").length;
  if (claimed.length >= WORKSPACE_PREFIXES_MAX || (created_env === "test" && byTest >= TEST_PREFIXES_MAX)) {
    countRecordRefusal(ctx);
    throw failField("prefix_quota", "key_prefix", "is one too many");
  }
  await claimPrefix.run(tx, { prefix, workspace_id, claimed_at: services.clock.now(), created_env });
}

/** Also the meaning of a violated unique index: two workspaces claimed it at the same time. */
export function prefixTaken() {
  return failField("prefix_taken", "key_prefix", "belongs to another workspace");
}

/** The prefixes of a project, the current one first. */
export function withPrefix(prefixes: readonly string[], prefix: string): string[] {
  const after = [prefix, ...prefixes.filter((other) => other !== prefix)];
  if (after.length > PROJECT_PREFIXES_MAX) throw failField("prefix_quota", "key_prefix", "is one too many");
  return after;
}

/** The current prefix of each project. */
export async function keyPrefixesOf(on: Reader, ids: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
  const heads = ids.size === 0 ? [] : await headsByIds(on, [...ids]);
  return new Map(heads.map(({ id, key_prefixes }) => [id, (JSON.parse(key_prefixes) as string[])[0] ?? OWN_PREFIX]));
}
