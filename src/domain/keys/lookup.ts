// Looks a key up, pasted or by its id: its record, whether a node would admit it, and every reason why not. A
// pasted text is not logged, not stored and not repeated; a key of another workspace gets the response of one that was
// never issued.
import {
  displayPrefix,
  guessCredentialKind,
  looksLikeApiKey,
  parseCredential,
  type CredentialKind,
} from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { sha256Hex } from "../../platform/crypto.ts";
import { prefixOwner } from "../../store/queries/key-prefixes.ts";
import { keyByHash, keyById } from "../../store/queries/keys.ts";
import { secretKeyByHash, secretKeyById } from "../../store/queries/secret-keys.ts";
import type { ApiKeyRow, ProjectRow, TenantRow } from "../../store/schema/tables.ts";
import { confinedTo, ownerOf, restrictionOf, type Vendor } from "../core/actor.ts";
import { addressRuleOf, refusesAddress } from "./address-rules.ts";
import type { Ctx } from "../core/context.ts";
import { reachesProject, requireReadable } from "../core/env-access.ts";
import { inFleetSlot } from "../core/read-slots.ts";
import { viewKey, viewSecretKey, type ApiKey, type SecretKey } from "../core/views.ts";
import type { LookupOutcome } from "../health/counts.ts";
import { resolveKey } from "../plans/effective.ts";
import { countLacking, needsToServe, nodesHolding } from "../nodes/needs.ts";
import { keyBalances } from "../quotas/balances.ts";

const PER_CREDENTIAL = { name: "lookup", limit: 60, windowMs: MINUTE_MS };
const PER_LIVE_CELL = { name: "lookup-workspace", limit: 600, windowMs: MINUTE_MS };
/** Test credentials never use up what live ones have. */
const PER_TEST_CELL = { ...PER_LIVE_CELL, limit: 150 };

/** Why a key is refused, in the order in which they are listed, and what a node responds; null: refuses nothing. */
const REASONS = {
  malformed: ["invalid_key", "This is not a key of this server."],
  bad_checksum: ["invalid_key", "The checksum is wrong: a character was mistyped or left out."],
  not_an_api_key: ["invalid_key", "This is another kind of credential."],
  unknown: ["invalid_key", "No such key exists in this workspace."],
  other_environment: ["invalid_key", "A test secret key cannot look up live keys."],
  other_project: ["invalid_key", "The key belongs to another project."],
  project_deleted: ["invalid_key", "Its project was deleted."],
  tenant_deleted: ["invalid_key", "Its tenant was deleted."],
  revoked: ["invalid_key", "It was revoked."],
  expired: ["expired_key", "It has expired."],
  tenant_suspended: ["tenant_suspended", "Its tenant is suspended."],
  disabled: ["key_disabled", "It is disabled."],
  ip_not_allowed: ["ip_not_allowed", "It may not be used from this address."],
  missing_scopes: ["insufficient_scope", "It lacks a required scope."],
  rate_limited: ["rate_limited", "It has used up a rate limit for now."],
  quota_exceeded: ["quota_exceeded", "It has used up a quota."],
  quarantined: [null, "It was reported as leaked and works until it expires."],
  nodes_behind: [null, "Some live nodes do not have the newest version yet."],
  nodes_withheld: [null, "Some live nodes refuse it, because they cannot enforce its restrictions."],
} as const satisfies Record<string, readonly [code: string | null, message: string]>;
type ReasonCode = keyof typeof REASONS;
type Reason = { code: ReasonCode; message: string; since: string | null };

const reason = (code: ReasonCode, at: number | null = null): Reason => ({
  code,
  message: REASONS[code][1],
  since: formatTimestampOrNull(at),
});

type Lookup = {
  key: string;
  scopes?: string[] | undefined;
  project_id?: string | undefined;
  ip?: string | undefined;
};

export async function lookUpKey(ctx: Ctx<Vendor>, input: Lookup) {
  const found = await judgeText(ctx, input);
  ctx.services.counts.lookups[outcomeOf(found)]++;
  return found;
}

/** For /metrics. A key of another workspace is unknown there too. */
function outcomeOf({ kind, found, admitted }: Awaited<ReturnType<typeof judgeText>>): LookupOutcome {
  if (kind !== "api_key") return "other";
  return !found ? "unknown" : admitted ? "admitted" : "refused";
}

async function judgeText(ctx: Ctx<Vendor>, input: Lookup) {
  const { services, actor } = ctx;
  const owner = ownerOf(actor);
  services.throttles.take(PER_CREDENTIAL, actor.id, owner);
  services.throttles.take(confinedTo(actor) === "test" ? PER_TEST_CELL : PER_LIVE_CELL, owner.id, owner);
  const text = input.key.trim();
  const parsed = parseCredential(text);
  const guessed = parsed?.kind ?? (await guessKind(ctx, text));
  const kind = guessed === null || guessed === "api_key" || guessed === "secret_key" ? guessed : ("other" as const);
  const isHidden = parsed?.env === "live" && confinedTo(actor) === "test";
  const key = parsed && !isHidden && kind === "api_key" ? await readKey(ctx, text) : undefined;
  const secretKey = parsed && !isHidden && kind === "secret_key" ? await readSecretKey(ctx, text) : null;
  const record: ApiKey | SecretKey | null = key ? viewKey(key) : secretKey;
  const about = {
    object: "key_lookup" as const,
    kind,
    env: parsed?.env ?? null,
    display_prefix: (kind && displayPrefix(text)) || null,
    well_formed: parsed !== null,
    found: record !== null,
    record,
  };
  if (key) return { ...about, ...(await judge(ctx, key, input)) };
  const isOther = kind === "secret_key" || kind === "other";
  const malformed: ReasonCode[] = parsed ? [] : [kind ? "bad_checksum" : "malformed"];
  const missing: ReasonCode[] = parsed && !record ? [isHidden ? "other_environment" : "unknown"] : [];
  const codes: ReasonCode[] = [...malformed, ...(isOther ? (["not_an_api_key"] as const) : []), ...missing];
  return {
    ...about,
    project: null,
    tenant: null,
    admitted: kind === "api_key" ? false : null,
    code: "invalid_key", // each of the codes refuses
    reasons: codes.map((code) => reason(code)),
    nodes: null,
  };
}

/** What a mistyped text was meant to be. With a prefix of others it may be a key of another service. */
async function guessKind({ services, actor }: Ctx<Vendor>, text: string): Promise<CredentialKind | null> {
  const kind = guessCredentialKind(text);
  if (kind !== null || !looksLikeApiKey(text)) return kind;
  const owner = await prefixOwner.first(services.store.read, { prefix: text.slice(0, text.indexOf("_")) });
  return owner?.workspace_id === actor.workspace_id ? "api_key" : null;
}

/** A key of a project that the caller does not reach was never issued, for them. */
async function readKey({ services, actor }: Ctx<Vendor>, text: string): Promise<ApiKeyRow | undefined> {
  const { workspace_id } = actor;
  const row = await keyByHash.first(services.store.read, { workspace_id, lookup_hash: sha256Hex(text) });
  return row && reachesProject(actor, row.project_id) ? row : undefined;
}

async function readSecretKey({ services, actor }: Ctx<Vendor>, text: string): Promise<SecretKey | null> {
  const { workspace_id } = actor;
  const found = await secretKeyByHash.first(services.store.read, { lookup_hash: sha256Hex(text) });
  if (found?.workspace_id !== workspace_id || (restrictionOf(actor) && found.id !== actor.id)) return null;
  const row = await secretKeyById.first(services.store.read, { workspace_id, id: found.id });
  return row ? viewSecretKey(row) : null;
}

/** The same verdict for a key by its id, which needs no pasted key. */
export async function showVerdict(ctx: Ctx<Vendor>, id: string) {
  const { services, actor } = ctx;
  const found = await keyById.first(services.store.read, { workspace_id: actor.workspace_id, id });
  const { admitted, code, reasons, nodes } = await judge(ctx, requireReadable(actor, found, "key_not_found"), {});
  return { admitted, code, reasons, nodes };
}

type Request = Omit<Lookup, "key">;

async function judge(ctx: Ctx<Vendor>, key: ApiKeyRow, request: Request) {
  const { project, tenant, plan, rate_limits, scopes } = await resolveKey(ctx.services.store.read, key);
  const needs = tenant ? needsToServe(key, tenant, plan) : NO_CAPS;
  const nodes = project?.deleted_at === null ? await countServing(ctx, project, key, needs) : null;
  const spent = { limit: await isLimited(ctx, key, rate_limits), quota: await hasUsedUpQuota(ctx, key) };
  const now = ctx.services.clock.now();
  const reasons = reasonsOf({ key, project, tenant, scopes, spent, nodes, now }, request);
  const code = reasons.map((each) => REASONS[each.code][0]).find((each) => each !== null) ?? null;
  return {
    project: project ? { id: project.id, name: project.name, slug: project.slug } : null,
    tenant: tenant ? { id: tenant.id, external_id: tenant.external_id, name: tenant.name } : null,
    admitted: code === null,
    code,
    reasons,
    nodes,
  };
}

type Facts = {
  key: ApiKeyRow;
  project: ProjectRow | undefined;
  tenant: TenantRow | undefined;
  /** The scopes that its plan leaves it. */
  scopes: readonly string[];
  spent: { limit: boolean; quota: boolean };
  nodes: Serving | null;
  now: number;
};

/** Every reason that holds, in the order of the table. */
function reasonsOf({ key, project, tenant, scopes, spent, nodes, now }: Facts, request: Request): Reason[] {
  const { scopes: required = [], project_id, ip } = request;
  const [projectEnd, tenantEnd] = [project?.deleted_at ?? null, tenant?.deleted_at ?? null];
  const suspended = tenant?.suspended_at ?? null;
  const leaked = key.revoked_at === null ? key.quarantined_at : null;
  const isOutside = ip !== undefined && tenant !== undefined && refusesAddress(addressRuleOf(key, tenant), ip);
  const causes: [code: ReasonCode, holds: boolean, at?: number | null][] = [
    ["other_project", project_id !== undefined && project_id !== key.project_id],
    ["project_deleted", projectEnd !== null, projectEnd],
    ["tenant_deleted", tenantEnd !== null, tenantEnd],
    ["revoked", key.revoked_at !== null, key.revoked_at],
    ["expired", key.expires_at !== null && key.expires_at <= now, key.expires_at],
    ["tenant_suspended", suspended !== null, suspended],
    ["disabled", key.disabled_at !== null, key.disabled_at],
    ["ip_not_allowed", isOutside],
    ["missing_scopes", !required.every((scope) => scopes.includes(scope))],
    ["rate_limited", spent.limit],
    ["quota_exceeded", spent.quota],
    ["quarantined", leaked !== null, leaked],
    ["nodes_behind", nodes !== null && nodes.current < nodes.live],
    ["nodes_withheld", nodes !== null && nodes.withheld > 0],
  ];
  return causes.filter(([, holds]) => holds).map(([code, , at]) => reason(code, at));
}

/** A peek: nothing is charged. */
async function isLimited(ctx: Ctx<Vendor>, key: ApiKeyRow, limits: RateLimit[]): Promise<boolean> {
  if (limits.length === 0) return false;
  const { workspace_id, project_id, env, tenant_id, id: key_id } = key;
  const { account_id } = ctx.actor;
  const subject = { workspace_id, account_id, project_id, env, tenant_id, key_id };
  return !(await ctx.services.counters.counter.check({ ...subject, cost: 0, limits })).allowed;
}

async function hasUsedUpQuota(ctx: Ctx<Vendor>, { id }: ApiKeyRow): Promise<boolean> {
  const { data } = await keyBalances(ctx, id);
  return data.some(({ overage, remaining }) => overage === "deny" && remaining === 0);
}

/** `withheld`: those that do not get the key. */
type Serving = { live: number; current: number; withheld: number };

/** The live nodes of the key's project and environment. */
async function countServing(
  ctx: Ctx<Vendor>,
  project: ProjectRow,
  { env }: ApiKeyRow,
  needs: number,
): Promise<Serving> {
  return inFleetSlot(ctx, async () => {
    const holding = await nodesHolding(ctx, { project_id: project.id, env });
    const current = holding.filter(({ version }) => version >= project.policy_version);
    return { live: holding.length, current: current.length, withheld: countLacking(holding, needs) };
  });
}
