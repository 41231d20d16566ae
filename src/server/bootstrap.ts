// The bootstrap token, with which the operator creates workspaces: configured, or read from a file in the data dir, or
// created on the first start. The database stores its hash only.
import { existsSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { requireUsableToken } from "../config/consistency.ts";
import type { Settings } from "../config/settings.ts";
import { mint } from "../domain/auth/new-credentials.ts";
import { sha256Hex } from "../platform/crypto.ts";
import type { Store } from "../store/store.ts";
import { createPrivateFile, readPrivateFile } from "./data-dir.ts";
import { claimFactOnce, getFact, setFact } from "../domain/core/facts.ts";

/** `hash` is null when bootstrap is off; `file` and `token` are null when this process does not know the token. */
export type Bootstrap = { hash: string | null; file: string | null; token: string | null };

export const noBootstrap: Bootstrap = { hash: null, file: null, token: null };

export async function openBootstrap(store: Store, settings: Settings, dir: string): Promise<Bootstrap> {
  if (!settings.bootstrap) return noBootstrap;
  const file = settings.bootstrap_token_file ? resolve(settings.bootstrap_token_file) : join(dir, "bootstrap.token");
  const token =
    settings.bootstrap_token || (existsSync(file) || settings.bootstrap_token_file ? readPrivateFile(file).trim() : "");
  if (token) return useToken(store, token, settings.bootstrap_token ? null : file);
  const hash = await getFact(store.read, "bootstrap_token_hash");
  if (hash) return { hash, file: null, token: null };
  // The file may have been created just now, by another process that shares the data dir.
  return (await createToken(store, file)) ?? useToken(store, readPrivateFile(file).trim(), file);
}

async function useToken(store: Store, token: string, file: string | null): Promise<Bootstrap> {
  requireUsableToken(token);
  const hash = sha256Hex(token);
  if ((await getFact(store.read, "bootstrap_token_hash")) !== hash)
    await setFact({ store }, "bootstrap_token_hash", hash);
  return { hash, file, token };
}

/**
 * Writes the file before the hash: after a crash in between, the next start reads the file; the other order loses the
 * token.
 */
async function createToken(store: Store, file: string): Promise<Bootstrap | null> {
  const { text, stored } = mint("bootstrap");
  if (!createPrivateFile(file, `${text}\n`, "KEYRACK_BOOTSTRAP_TOKEN_FILE")) return null;
  const hash = await claimFactOnce({ store }, "bootstrap_token_hash", () => stored.lookup_hash);
  if (hash === stored.lookup_hash) return { hash, file, token: text };
  rmSync(file); // another process was first
  return { hash, file: null, token: null };
}
