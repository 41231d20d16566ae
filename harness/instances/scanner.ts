// A secret scanner for tests: reports signed with its key, and an instance that trusts it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import type { Backend } from "../databases/backends.ts";
import { headersFor, keyList } from "./scanner-keys.ts";
import { testInstance, type Reply, type TestInstance } from "./test-instance.ts";

export const ROUTE = "POST /v1/webhooks/scanner/secret_scanning";

type Finding = { token: string; type?: string; url?: string; source?: string };

/** Sends a signed report byte for byte. */
export function report(instance: TestInstance, findings: Finding[], family?: "Scanner" | "Github"): Promise<Reply> {
  const raw = JSON.stringify(findings);
  return instance.call(null, ROUTE, undefined, { raw, headers: headersFor(raw, family) });
}

/** A folder with the keys file, removed at the end. */
export function scannerKeysFile(): Disposable & { file: string } {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-scanner-"));
  const file = join(dir, "keys.json");
  writeFileSync(file, keyList());
  return { file, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

/** Where a finding was made. */
export const WHERE = { type: "keyrack_api_key", url: "https://github.com/acme/app/blob/main/.env", source: "commit" };

/** An instance that trusts the test scanner. `labels` reports tokens and returns their labels. */
export function scannerFixture(backend: Backend) {
  const keys = scannerKeysFile();
  let instance: TestInstance;
  beforeAll(async () => {
    instance = await testInstance(backend, { flags: { scanner_keys_file: keys.file } });
  });
  afterAll(async () => {
    await instance[Symbol.asyncDispose]();
    keys[Symbol.dispose]();
  });
  const labels = async (...tokens: string[]): Promise<string[]> => {
    const findings = tokens.map((token) => ({ token, ...WHERE }));
    const reply = await report(instance, findings);
    expect(reply.status, reply.text).toBe(200);
    return reply.body.map(({ label }: { label: string }) => label);
  };
  return { now: () => instance, labels };
}
