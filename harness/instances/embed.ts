// A workspace whose tenant's browser has an embed token, and forged tokens for refusal tests.
import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { SignJWT, type JWTHeaderParameters } from "jose";
import { openPrivateKey } from "../../src/domain/vault/signing-keys.ts";
import { signingKeyById } from "../../src/store/queries/signing-keys.ts";
import type { Json, Reply, TestInstance, Workspace } from "./test-instance.ts";

export const ORIGIN = "https://app.example.com";
export const ALL_SCOPES = ["keys:read", "keys:write", "key_scope:orders:read", "key_scope:orders:write"];

export type Embed = {
  workspace: Workspace;
  minted: Json & { token: string; kid: string; jti: string };
  /** Calls the embed plane with the token from its origin. */
  call(route: string, body?: unknown, options?: { token?: string; origin?: string | null }): Promise<Reply>;
  mint(body?: Json, headers?: Record<string, string>): Promise<Reply>;
};

export async function embed(instance: TestInstance, body: Json = {}): Promise<Embed> {
  const workspace = await instance.workspace();
  const { project_id, tenant_id } = workspace;
  await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [ORIGIN, "http://localhost:3000"] });
  const mint: Embed["mint"] = (more = {}, headers = {}) =>
    workspace.call(
      "sk_owner",
      "POST /v1/embed_tokens",
      { project_id, tenant_id, env: "live", scopes: ALL_SCOPES, ...more },
      { headers },
    );
  const { body: minted } = await mint(body);
  return {
    workspace,
    minted,
    mint,
    call: (route, content, { token = minted.token as string, origin = ORIGIN } = {}) =>
      instance.call(token, route, content, { headers: origin === null ? {} : { origin } }),
  };
}

type Forged = {
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
  key?: KeyObject;
};

/**
 * A token with the claims and header of a valid one, overridden as given; signed with the instance's key by default.
 */
export async function forge(
  instance: TestInstance,
  e: Embed,
  { header = {}, claims = {}, key }: Forged,
): Promise<string> {
  const [rawHeader = "", rawClaims = ""] = e.minted.token.split(".");
  const was = JSON.parse(Buffer.from(rawClaims, "base64url").toString()) as Record<string, unknown>;
  const head = JSON.parse(Buffer.from(rawHeader, "base64url").toString()) as JWTHeaderParameters;
  const signer = key ?? (await signingKey(instance, e.minted.kid));
  return new SignJWT({ ...was, ...claims }).setProtectedHeader({ ...head, ...header }).sign(signer);
}

export async function signingKey(instance: TestInstance, kid: string): Promise<KeyObject> {
  const [row] = await instance.sql(`select id from signing_keys where kid = '${kid}'`);
  const found = await signingKeyById.first(instance.app.services.store.read, { id: String(row?.id) });
  if (!found) throw new Error("no such signing key");
  return openPrivateKey(instance.app.services, found);
}

export function strangerKey(): KeyObject {
  const { privateKey } = generateKeyPairSync("ed25519");
  return createPrivateKey(privateKey.export({ format: "pem", type: "pkcs8" }));
}

/** An unsigned token with the given header and claims. */
export function unsigned(header: object, claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part(header)}.${part(claims)}.`;
}

export function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;
}
