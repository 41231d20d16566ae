// Runs Lua scripts on Redis, and names what they store.
import { hash } from "node:crypto";
import type { RedisClient } from "./connect.ts";

export type Script = { readonly text: string; readonly sha: string };

/** Redis names scripts by SHA-1; nothing here is secret. */
export function script(text: string): Script {
  return { text, sha: hash("sha1", text) };
}

/** By digest; with the text when Redis does not know the script (restarted, flushed, or another cluster node). */
export function runScript(
  client: RedisClient,
  { sha, text }: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  return client.evalsha(sha, keys.length, ...keys, ...args).catch((error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return client.eval(text, keys.length, ...keys, ...args);
  });
}

/** Keeps ids out of Redis, and bounds the length of forged ones. 132 bits. */
export function shortDigest(text: string): string {
  return hash("sha256", text, "base64url").slice(0, 22);
}
