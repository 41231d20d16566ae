// Embed tokens: five-minute JWTs that let a tenant's browser manage its own keys. Tokens are not stored, so every
// request checks in the database that tenant, project, epoch and origins are still valid.
import type { KeyObject } from "node:crypto";
import { compactVerify, decodeProtectedHeader, SignJWT } from "jose";
import { fail, failField } from "../../kernel/errors.ts";
import { parseUuid } from "../../kernel/ids.ts";
import { ENVS, type Env } from "../../kernel/credentials.ts";
import { normalizeOrigin } from "../../kernel/origins.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { liveProjectById } from "../../store/queries/projects.ts";
import { liveTenantById } from "../../store/queries/tenants.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { EmbedActor, SecretKeyActor } from "../core/actor.ts";
import { requireEnvAccess, requireProjectAccess } from "../core/env-access.ts";
import type { Ctx, Services } from "../core/context.ts";
import { EMBED_ALG, embedKeyAt, loadEmbedSigner } from "./signing-keys.ts";
import { liveProject } from "../workspaces/projects.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import { originsOf } from "../workspaces/workspaces.ts";

export const EMBED_TYP = "keyrack-embed+jwt";
const LIFE_S = 300;
const REFRESH_AFTER_S = 240;
const NBF_LEEWAY_S = 5;
/** Request headers are limited to 16 KiB: a longer token could be minted but never sent. */
const TOKEN_CHARS_MAX = 12 * 1024;

type NewEmbedToken = {
  project_id: string;
  tenant_id: string;
  env: Env;
  scopes: string[];
  origins?: string[] | undefined;
};

/** Writes nothing: no audit row, no lock. */
export async function mintEmbedToken(ctx: Ctx<SecretKeyActor>, input: NewEmbedToken) {
  const { services, actor } = ctx;
  requireEnvAccess(actor, input.env);
  requireProjectAccess(actor, input.project_id);
  const { read } = services.store;
  const project = await liveProject(read, actor.workspace_id, input.project_id);
  const tenant = await liveTenant(read, actor.workspace_id, input.tenant_id);
  const audience = await audienceFor(services, actor.workspace_id, input.origins);
  const signer = await loadEmbedSigner(services);
  if (!signer) throw fail("unavailable", { retryAfterSeconds: 5 });
  const iat = Math.floor(services.clock.now() / 1000);
  const claims: Claims = {
    iss: services.publicUrl,
    aud: audience,
    sub: tenant.id,
    jti: services.newId(),
    iat,
    nbf: iat,
    exp: iat + LIFE_S,
    wid: actor.workspace_id,
    pid: project.id,
    env: input.env,
    ext: tenant.external_id,
    epoch: tenant.embed_epoch,
    scopes: input.scopes,
  };
  const header = { alg: EMBED_ALG, kid: signer.kid, typ: EMBED_TYP };
  const token = await new SignJWT(claims).setProtectedHeader(header).sign(signer.key);
  if (token.length > TOKEN_CHARS_MAX)
    throw failField("invalid_body", "scopes", "make the token too long for a request header: grant fewer or shorter");
  return viewToken(token, signer.kid, claims);
}

function viewToken(token: string, kid: string, claims: Claims) {
  return {
    object: "embed_token" as const,
    token,
    jti: claims.jti,
    kid,
    project_id: claims.pid,
    env: claims.env,
    tenant_id: claims.sub,
    tenant_external_id: claims.ext,
    scopes: claims.scopes,
    audience: claims.aud,
    epoch: claims.epoch,
    issued_at: formatTimestamp(claims.iat * 1000),
    expires_at: formatTimestamp(claims.exp * 1000),
    expires_in: LIFE_S,
    refresh_after: formatTimestamp((claims.iat + REFRESH_AFTER_S) * 1000),
  };
}

/** The requested origins, which must be registered, or all registered ones. Never empty. */
async function audienceFor(
  services: Services,
  workspace_id: string,
  requested: string[] | undefined,
): Promise<string[]> {
  const row = await workspaceById.first(services.store.read, { id: workspace_id });
  if (!row) throw fail("workspace_not_found");
  const registered = originsOf(row);
  if (registered.length === 0)
    throw failField("invalid_body", "origins", "need at least one origin registered on the workspace (embed_origins)");
  if (!requested) return registered;
  const audience = requested.map((origin) => normalizeOrigin(origin));
  if (audience.length === 0 || !audience.every((origin) => origin !== null && registered.includes(origin)))
    throw failField("invalid_body", "origins", "must be origins registered on the workspace");
  return [...new Set(audience as string[])];
}

type Claims = {
  iss: string;
  aud: string[];
  sub: string;
  jti: string;
  iat: number;
  nbf: number;
  exp: number;
  wid: string;
  pid: string;
  env: Env;
  ext: string;
  epoch: number;
  scopes: string[];
};

/** Whether a bearer has the form of a JWT. */
export function looksLikeJwt(text: string): boolean {
  return /^eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*$/.test(text);
}

/** Every rejection is the same failure: it must not reveal which check failed. */
export async function resolveEmbedToken(services: Services, token: string): Promise<EmbedActor> {
  const claims = token.length <= TOKEN_CHARS_MAX ? await verifiedClaims(services, token) : null;
  const actor = claims && (await currentActor(services.store.read, claims));
  if (!actor) throw fail("invalid_embed_token");
  return actor;
}

/** The actor of a token that was resolved before, as the transaction sees it; null if the token has ended. */
export async function rereadEmbedToken(services: Services, token: string, tx: Tx): Promise<EmbedActor | null> {
  const unverified = readUnverified(token);
  if (!unverified || !isInForce(services, unverified.claims)) return null;
  const key = await embedKeyAt(services, unverified.kid, issuedBy(unverified.claims), tx);
  return key ? currentActor(tx, unverified.claims) : null;
}

const HEADER_FIELDS = ["alg", "kid", "typ"];

/** The claims of a token that is an embed token, signed by us, and within its validity period. */
async function verifiedClaims(services: Services, token: string): Promise<Claims | null> {
  const unverified = readUnverified(token);
  if (!unverified) return null;
  const { kid, claims } = unverified;
  const key = await embedKeyAt(services, kid, issuedBy(claims));
  if (!key || !(await isSignedBy(key, token))) return null;
  return isInForce(services, claims) ? claims : null;
}

/** The end of the second in which it was issued. */
function issuedBy({ iat }: Claims): number {
  return iat * 1000 + 999;
}

function isInForce(services: Services, { iss, exp, nbf }: Claims): boolean {
  const now = Math.floor(services.clock.now() / 1000);
  return iss === services.publicUrl && exp > now && nbf <= now + NBF_LEEWAY_S;
}

/** Rejects any other header than ours: keys or key URLs in a token (jwk, jku, x5u) are never used. */
function readUnverified(token: string): { kid: string; claims: Claims } | null {
  try {
    const header = decodeProtectedHeader(token);
    if (header.typ !== EMBED_TYP || header.alg !== EMBED_ALG || typeof header.kid !== "string") return null;
    if (Object.keys(header).some((name) => !HEADER_FIELDS.includes(name))) return null;
    const claims = readClaims(Buffer.from(token.split(".")[1] ?? "", "base64url"));
    return claims && { kid: header.kid, claims };
  } catch {
    return null;
  }
}

async function isSignedBy(key: KeyObject, token: string): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [EMBED_ALG] });
    return true;
  } catch {
    return false;
  }
}

function readClaims(payload: Uint8Array): Claims | null {
  const claims = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload)) as Claims | null;
  if (typeof claims !== "object" || claims === null) return null;
  const { aud, scopes, env } = claims;
  const ids = [claims.sub, claims.wid, claims.pid, claims.jti].every((id) => typeof id === "string" && parseUuid(id));
  const numbers = [claims.iat, claims.nbf, claims.exp, claims.epoch].every((n) => Number.isSafeInteger(n));
  return ids && numbers && isStringArray(aud) && isStringArray(scopes) && ENVS.includes(env) ? claims : null;
}

function isStringArray(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

/** The actor, if tenant and project still exist and the epoch has not been raised since. */
async function currentActor(on: Reader, claims: Claims): Promise<EmbedActor | null> {
  const workspace_id = claims.wid;
  const [workspace, project, tenant] = await Promise.all([
    workspaceById.first(on, { id: workspace_id }),
    liveProjectById.first(on, { workspace_id, id: claims.pid }),
    liveTenantById.first(on, { workspace_id, id: claims.sub }),
  ]);
  if (!workspace || !project || !tenant || tenant.embed_epoch !== claims.epoch) return null;
  const registered = originsOf(workspace);
  return {
    kind: "embed_token",
    workspace_id,
    account_id: workspace.created_by,
    project_id: project.id,
    tenant_id: tenant.id,
    env: claims.env,
    scopes: claims.scopes,
    origins: claims.aud.filter((origin) => registered.includes(origin)),
    jti: claims.jti,
    epoch: claims.epoch,
    expires_at: claims.exp * 1000,
  };
}
