// Feed responses and loaded policies for tests that need no server. The ids of a key are derived from its hash, so the
// same key always has the same ids.

import { createHash, randomBytes } from "node:crypto";
import type { z } from "zod";
import type * as schemas from "../../src/api/machine/policy-schemas.ts";
import { type Env, formatCredential } from "../../src/kernel/credentials.ts";
import { OWN_FORMATS } from "../../src/kernel/crypto/key-digest.ts";
import { SnapshotLoader } from "../../src/kernel/policy/loader.ts";
import { Decision, type Policy } from "../../src/kernel/policy/policy.ts";

// As the server declares them.
type PolicySnapshot = z.output<typeof schemas.PolicySnapshot>;
type PolicyDelta = z.output<typeof schemas.PolicyDelta>;
export type KeyEntry = PolicySnapshot["keys"][number];
export type PolicyChange = PolicyDelta["changes"][number];
export type RemovedKey = Extract<PolicyChange, { change: "remove" }>;

export const WORKSPACE = "0190163d-8694-739b-aea5-966c26f8ad90";
export const PROJECT = "0190163d-8694-739b-aea5-966c26f8ad91";
const TENANT = "0190163d-8694-739b-aea5-966c26f8ad92";
export const EXPECTED = { projectId: PROJECT, env: null, maxKeys: 1000 };
export const NOW = Date.parse("2026-11-15T00:00:00.000Z");
const GENERATED = "2026-11-15T00:00:00.000Z";

export const sha256Hex = (text: string) => createHash("sha256").update(text).digest("hex");

export function keyIdFor(key: string): string {
  const hex = sha256Hex(key);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export function keyEntry(key: string, more: Partial<KeyEntry> = {}): KeyEntry {
  return {
    key_id: keyIdFor(key),
    tenant_id: TENANT,
    env: key.startsWith("kr_test_") ? "test" : "live",
    lookup_hash: sha256Hex(key),
    display_prefix: key.slice(0, 14),
    scopes: [],
    expires_at: null,
    rate_limits: [],
    ...more,
  };
}

export function keyRemoval(key: string): RemovedKey {
  const { key_id, tenant_id, env, lookup_hash, display_prefix } = keyEntry(key);
  return { change: "remove", key_id, tenant_id, env, lookup_hash, display_prefix, reason: "revoked" };
}

export function policySnapshot(keys: KeyEntry[], more: Partial<PolicySnapshot> = {}): PolicySnapshot {
  return {
    object: "policy_snapshot",
    workspace_id: WORKSPACE,
    project_id: PROJECT,
    env: null,
    version: 1,
    project_deleted: false,
    generated_at: GENERATED,
    keys,
    next_cursor: null,
    ...more,
  };
}

/** `changes` is loosely typed: tests send what no server should. */
export function policyDelta(since: number, version: number, changes: object[]): PolicyDelta {
  const { keys: _keys, next_cursor: _cursor, ...head } = policySnapshot([]);
  return { ...head, object: "policy_delta", since, version, changes: changes as PolicyDelta["changes"] };
}

export function keyUpsert(key: string, more: Partial<KeyEntry> = {}) {
  return { change: "upsert" as const, ...keyEntry(key, more) };
}

export function mintKey(env: Env = "live"): string {
  return formatCredential("api_key", env, randomBytes(24));
}

export function loadPolicy(...pages: unknown[]): Policy {
  const loader = new SnapshotLoader(EXPECTED);
  for (const page of pages) loader.add(page);
  return loader.finish();
}

/** Decision.decide() at NOW. */
export function judgeKey(policy: Policy | null, key: string, required: string[] = [], env: Env | null = null) {
  const into = new Decision(env, () => NOW);
  return { outcome: into.decide(policy, policy?.formats ?? OWN_FORMATS, key, 0, required), into };
}
