// Leaked credentials reported by a secret scanner. Each token has its own transaction and each action is idempotent, so
// the scanner can resend a report that failed half-way. Caution: the reported location goes into the quarantine reason
// and the mail and may contain the key itself, so credentials in it are masked.
import { chunked } from "../../kernel/chunks.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { parseCredential, parseInviteToken, type CredentialKind } from "../../kernel/credentials.ts";
import { inviteByHash } from "../../store/queries/invites.ts";
import { endTokens, tokenByHash } from "../../store/queries/one-time-tokens.ts";
import { endSetupTokens, setupTokenByHash } from "../../store/queries/setup-tokens.ts";
import { revokeSessionRow, sessionByHash } from "../../store/queries/sessions.ts";
import type { TokenPurpose } from "../../store/schema/tables.ts";
import type { ScannerActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { quarantine } from "./quarantine.ts";
import { sessionRevoked } from "../auth/sessions.ts";
import { endInvite } from "../workspaces/invite-tokens.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const TOKENS_MAX = 1_000;
const CONCURRENCY = 50;

type Scanner = Ctx<ScannerActor>;
type LeakReport = { token: string; type: string; location: string };
type Label = { token_hash: string; token_type: string; label: "true_positive" | "false_positive" };

/** Lenient, since the sender is third-party software: unknown fields are ignored, only `token` is required. */
export function parseReports(bytes: Uint8Array): LeakReport[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw fail("invalid_body");
  }
  if (!Array.isArray(value)) throw fail("invalid_body");
  if (value.length > TOKENS_MAX) throw fail("payload_too_large");
  return value.map((one: Record<string, unknown> | null, i) => {
    if (typeof one?.token !== "string") throw failField("invalid_body", `[${i}].token`, "must be a string");
    const { token, type } = one;
    return { token, type: typeof type === "string" ? type : "", location: locationOf(one) };
  });
}

const CREDENTIAL =
  /((?:kr(?:sk|ses|boot|ev|pr|set)?_(?:live_|test_)?|[a-z][a-z0-9]{1,8}_(?:live|test)_|[\da-f]{8}-[\da-f-]{27}\.)[A-Za-z0-9_-]{6})[A-Za-z0-9_-]{20,}/g;

function locationOf({ source, url }: Record<string, unknown>): string {
  const parts = [source, url].filter((part) => typeof part === "string").map((part) => part.trim());
  return parts
    .filter(Boolean)
    .join(" ")
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .replace(CREDENTIAL, "$1…")
    .trim();
}

/** Labels all tokens, in order. If one fails, the others are still processed, but the response is an error. */
export async function reportLeaks(ctx: Scanner, reports: readonly LeakReport[]): Promise<Label[]> {
  const labels: Label[] = [];
  const failed: unknown[] = [];
  for (const some of chunked(reports, CONCURRENCY)) {
    for (const result of await Promise.allSettled(some.map((report) => labelOne(ctx, report)))) {
      if (result.status === "fulfilled") labels.push(result.value);
      else failed.push(result.reason);
    }
  }
  ctx.services.mail.wake();
  if (failed.length > 0) throw failed[0];
  return labels;
}

async function labelOne(ctx: Scanner, report: LeakReport): Promise<Label> {
  const token_hash = sha256Hex(report.token);
  const known = await stopLeak(ctx, report, token_hash);
  return { token_hash, token_type: report.type, label: known ? "true_positive" : "false_positive" };
}

type LeakHandler = (ctx: Scanner, hash: string, location: string) => Promise<boolean>;

const handlers: Record<CredentialKind, LeakHandler> = {
  api_key: (ctx, hash, location) => stopKey(ctx, "api_key", hash, location),
  secret_key: (ctx, hash, location) => stopKey(ctx, "secret_key", hash, location),
  session: stopSession,
  bootstrap: async () => false, // checked before parsing, since it may have any form
  email_verification: (ctx, hash) => stopOneTimeToken(ctx, hash, "email_verification"),
  password_reset: (ctx, hash) => stopOneTimeToken(ctx, hash, "password_reset"),
  setup: stopSetupToken,
};

/** True when the token is or was a Keyrack credential. */
function stopLeak(ctx: Scanner, report: LeakReport, hash: string): Promise<boolean> {
  if (hash === ctx.services.bootstrapHash()) {
    logLeak(ctx, "bootstrap", { hint: "replace the bootstrap token: the server cannot revoke it" });
    return Promise.resolve(true);
  }
  const invite = parseInviteToken(report.token);
  if (invite) return stopInvite(ctx, invite.workspace_id, hash);
  const parsed = parseCredential(report.token);
  return parsed ? handlers[parsed.kind](ctx, hash, report.location) : Promise.resolve(false);
}

type LeakedKind = CredentialKind | "workspace_invite";

function logLeak({ services, from }: Scanner, kind: LeakedKind, fields: Record<string, string | undefined>): void {
  services.log.warn("a leaked credential was reported", { kind, ...fields, ...from });
}

async function stopKey(ctx: Scanner, kind: "api_key" | "secret_key", hash: string, location: string): Promise<boolean> {
  const found = await quarantine(ctx, kind, hash, location);
  if (found) logLeak(ctx, kind, { workspace_id: found.workspace_id, id: found.id, env: found.env });
  return found !== undefined;
}

/** A leaked session can be used at once, so it is revoked without a grace period. */
async function stopSession(ctx: Scanner, lookup_hash: string): Promise<boolean> {
  const { services } = ctx;
  const found = await sessionByHash.first(services.store.read, { lookup_hash });
  if (!found) return false;
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = services.clock.now();
    const row = await sessionByHash.first(tx, { lookup_hash });
    if (!row || row.revoked_at !== null || Math.min(row.expires_at, row.absolute_expires_at) <= now)
      return unchanged(null);
    await revokeSessionRow.run(tx, { id: row.id, revoked_at: now });
    return { value: null, events: [sessionRevoked(row, "reported as leaked")] };
  });
  logLeak(ctx, "session", { user_id: found.user_id, id: found.id });
  return true;
}

/** Ends a leaked link; the person can request another. */
async function stopOneTimeToken(ctx: Scanner, token_hash: string, purpose: TokenPurpose): Promise<boolean> {
  const { services } = ctx;
  const found = await tokenByHash.first(services.store.read, { token_hash, purpose });
  if (!found) return false;
  const { user_id } = found;
  if (found.ended_at === null)
    await record(services, (tx) => endTokens.run(tx, { user_id, purpose, now: services.clock.now() }));
  logLeak(ctx, purpose, { user_id });
  return true;
}

/** A leaked invitation is revoked; its workspace can send another. */
async function stopInvite(ctx: Scanner, workspace_id: string, token_hash: string): Promise<boolean> {
  const { services } = ctx;
  const found = await inviteByHash.first(services.store.read, { workspace_id, token_hash });
  if (!found) return false;
  await mutate(ctx, { workspace_id }, async (tx) => {
    const now = services.clock.now();
    const row = await inviteByHash.first(tx, { workspace_id, token_hash });
    if (!row || row.accepted_at !== null || row.revoked_at !== null || row.expires_at <= now) return unchanged(null);
    return { value: null, events: [await endInvite(tx, row, now)] };
  });
  logLeak(ctx, "workspace_invite", { workspace_id, id: found.id });
  return true;
}

/** Ends every setup link: others may have leaked with it. The operator prints a new one. */
async function stopSetupToken(ctx: Scanner, token_hash: string): Promise<boolean> {
  const { services } = ctx;
  const found = await setupTokenByHash.first(services.store.read, { token_hash });
  if (!found) return false;
  await record(services, (tx) => endSetupTokens.run(tx, { now: services.clock.now(), kept: 0 }));
  logLeak(ctx, "setup", {});
  return true;
}
