// Parameters of the policy feed's queries. In a file of their own because policy.ts and both dialects need them.
import type { Env } from "../../kernel/credentials.ts";

export type PolicySelection = {
  project_id: string;
  env: Env | null;
  tenants: readonly string[];
  /** The project's default rate limits, which a key without its own inherits; JSON text. */
  defaults: string;
};

export type ChunkParams = PolicySelection & { after: string; limit: number; expiredBefore: number };
export type ChangesParams = PolicySelection & { since: number; upTo: number; limit: number };
