// Keys and a policy of any size for the verification benchmark, and an SDK instance that has it. The policy comes
// through the SDK's own feed client from responses made here, so the measured code is what a vendor runs.
import { hash, randomBytes, randomUUID } from "node:crypto";
import { crc32 } from "node:zlib";
import type { KeyEntry } from "../../harness/sdk/policy-fixtures.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import type { Keyrack } from "../../src/sdk/instance.ts";
import { defaultPorts } from "../../src/sdk/runtime.ts";

export const PROJECT = randomUUID();
const WORKSPACE = randomUUID();
const PAGE = 10_000;
const SCOPES = [["orders:read"], ["orders:read", "orders:write"], ["orders:read", "refunds:write"], ["orders:read"]];
const LIMITS: KeyEntry["rate_limits"] = [
  { id: "per-minute", limit: 600, window_ms: 60_000, algorithm: "sliding", scope: "key" },
];

export function mint(): string {
  return mintWith("kr");
}

export function mintWith(prefix: string): string {
  const head = `${prefix}_live_${randomBytes(24).toString("base64url")}`;
  return head + crc32(head).toString(16).padStart(8, "0");
}

/** Twelve attributes with the ids; a third of the keys expire; three keys per tenant. */
export function entryOf(key: string, i: number, tenants: readonly string[]): KeyEntry {
  return {
    key_id: randomUUID(),
    tenant_id: tenants[i % tenants.length] ?? "",
    env: "live",
    lookup_hash: hash("sha256", key, "hex"),
    display_prefix: key.slice(0, 14),
    scopes: SCOPES[i % SCOPES.length] ?? [],
    expires_at: i % 3 === 0 ? new Date(1_900_000_000_000 + i * 1000).toISOString() : null,
    rate_limits: i % 2 === 0 ? LIMITS : [],
  };
}

export const tenantsFor = (keys: number): string[] => Array.from({ length: Math.ceil(keys / 3) }, () => randomUUID());

/** What all keys of a snapshot, or the snapshot itself, have in addition. */
type More = { entry?: (i: number) => Partial<KeyEntry>; head?: { key_prefixes?: string[] } };

/** One snapshot page at a time, as the text the feed would send. */
export function* pagesOf(keys: readonly string[], more: More = {}): Generator<string> {
  const tenants = tenantsFor(keys.length);
  for (let from = 0; from < keys.length; from += PAGE) {
    const entries = keys
      .slice(from, from + PAGE)
      .map((key, i) => ({ ...entryOf(key, from + i, tenants), ...more.entry?.(from + i) }));
    yield pageText(entries, from + PAGE < keys.length ? `c${from}` : null, more.head);
  }
}

function pageText(keys: KeyEntry[], next_cursor: string | null, more: More["head"] = {}): string {
  const about = { object: "policy_snapshot", workspace_id: WORKSPACE, project_id: PROJECT, env: null, version: 7 };
  const head = { ...about, ...more };
  return JSON.stringify({ ...head, project_deleted: false, generated_at: new Date().toISOString(), keys, next_cursor });
}

export function deltaOf(since: number, change: KeyEntry): object {
  const head = { object: "policy_delta", workspace_id: WORKSPACE, project_id: PROJECT, env: null, since };
  return { ...head, version: since + 1, project_deleted: false, changes: [{ change: "upsert", ...change }] };
}

const crcOf = (text: string): string => crc32(text).toString(16).padStart(8, "0");
const secret = mint().replace("kr_live_", "krsk_live_").slice(0, 42);
export const OPTIONS = { url: "http://keyrack.invalid", secretKey: secret + crcOf(secret), projectId: PROJECT };

/** An SDK instance that has loaded these pages. Its later polls wait for ever. */
export async function holding(pages: Iterable<string>): Promise<Keyrack> {
  const next = pages[Symbol.iterator]();
  const never = new Promise<Response>(() => {});
  const answer = (url: string): Promise<Response> => {
    if (url.includes("/v1/policy/snapshot")) return Promise.resolve(new Response(next.next().value));
    return url.includes("leaving") ? Promise.resolve(new Response("{}")) : never;
  };
  const keyrack = createKeyrackWith(OPTIONS, { ...defaultPorts(), fetch: answer });
  await keyrack.ready();
  return keyrack;
}
