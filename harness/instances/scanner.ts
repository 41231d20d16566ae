// A secret scanner for tests: its own key pair in GitHub's format, and reports signed with it.
import { generateKeyPairSync, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import type { Backend } from "../databases/backends.ts";
import { testInstance, type Reply, type TestInstance } from "./test-instance.ts";

export const ROUTE = "POST /v1/webhooks/scanner/secret_scanning";

/** The test vector that GitHub publishes for its secret scanning partners. */
export const GITHUB = {
  identifier: "github-vector",
  body: '[{"token":"some_token","type":"some_type","url":"some_url"}]',
  signature: "MEUCIQDKZokqnCjrRtw0tni+2Ltvl/uiMJ1EGumEsp1BsNr32AIgQY1YXD2nlj+XNfGK4rBfkMJ1JDOQcYXxa2sY8FNkrKc=",
  key: pem(
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9MJJHnMfn2+H4xL4YaPDA4RpJqUqkCmRCBnYERxZanmcpzQSXs1X/AljlKkbJ8qpVIW4clayyef9gWhFbNHWAA==",
  ),
};

function pem(base64: string): string {
  return `-----BEGIN PUBLIC KEY-----\n${base64}\n-----END PUBLIC KEY-----\n`;
}

const pair = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
export const IDENTIFIER = "test-scanner";

export function keyList(...more: { key_identifier: string; key: string }[]): string {
  const own = { key_identifier: IDENTIFIER, key: pair.publicKey.export({ type: "spki", format: "pem" }).toString() };
  const github = { key_identifier: GITHUB.identifier, key: GITHUB.key };
  return JSON.stringify({ public_keys: [own, github, ...more].map((key) => ({ ...key, is_current: true })) });
}

export function signed(body: string): string {
  return sign("sha256", Buffer.from(body), { key: pair.privateKey, dsaEncoding: "der" }).toString("base64");
}

export function headersFor(
  body: string,
  family: "Scanner" | "Github" = "Scanner",
  signature = signed(body),
  identifier = IDENTIFIER,
): Record<string, string> {
  return { [`${family}-Public-Key-Identifier`]: identifier, [`${family}-Public-Key-Signature`]: signature };
}

export type Finding = { token: string; type?: string; url?: string; source?: string };

/** Sends a signed report byte for byte. */
export function report(r: TestInstance, findings: Finding[], family?: "Scanner" | "Github"): Promise<Reply> {
  const raw = JSON.stringify(findings);
  return r.call(null, ROUTE, undefined, { raw, headers: headersFor(raw, family) });
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
export function scannerFixture(back: Backend) {
  const keys = scannerKeysFile();
  let r: TestInstance;
  beforeAll(async () => {
    r = await testInstance(back, { flags: { scanner_keys_file: keys.file } });
  });
  afterAll(async () => {
    await r[Symbol.asyncDispose]();
    keys[Symbol.dispose]();
  });
  const labels = async (...tokens: string[]): Promise<string[]> => {
    const findings = tokens.map((token) => ({ token, ...WHERE }));
    const reply = await report(r, findings);
    expect(reply.status, reply.text).toBe(200);
    return reply.body.map(({ label }: { label: string }) => label);
  };
  return { now: () => r, labels };
}
