// The library of release 0.1.0, which announces no capabilities: bundled into one file, as vendors still run it. Kept
// to prove that it never admits a key whose restrictions it does not know.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import type { Denied, Context } from "../../src/sdk/context.ts";
import type { KeyrackOptions } from "../../src/sdk/options.ts";

type EarlierKeyrack = {
  ready(): Promise<void>;
  verify(key: string, options?: { scopes?: string[] }): { ok: true; context: Context } | Denied;
  status(): { version: number | null; keys: number };
  close(): Promise<void>;
};
export type EarlierSdk = { createKeyrack(options: KeyrackOptions): EarlierKeyrack };

const BUNDLE = new URL("../../test/fixtures/sdk-0.1.0.mjs.gz", import.meta.url);

/** Its source, minified. */
export function earlierSdkText(): string {
  return gunzipSync(readFileSync(BUNDLE)).toString("utf8");
}

export async function earlierSdk(): Promise<EarlierSdk> {
  const folder = mkdtempSync(join(tmpdir(), "keyrack-sdk-"));
  try {
    const file = join(folder, "sdk.mjs");
    writeFileSync(file, earlierSdkText());
    return (await import(pathToFileURL(file).href)) as EarlierSdk;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
