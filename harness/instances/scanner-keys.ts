// The key pair of a secret scanner in GitHub's format, and signatures made with it. Campaigns use it too, so it must
// not load vitest.
import { generateKeyPairSync, sign } from "node:crypto";

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
