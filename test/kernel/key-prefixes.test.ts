// The key prefixes that a project may choose.
import { describe, expect, it } from "vitest";
import { formatApiKey, guessCredentialKind, parseCredential } from "../../src/kernel/credentials.ts";
import { prefixProblem } from "../../src/kernel/key-prefixes.ts";

describe("a key prefix", () => {
  it("has 2 to 9 lower-case letters and digits, the first a letter", () => {
    for (const prefix of ["ab", "acme", "a1", "northwind", "kr"]) expect(prefixProblem(prefix), prefix).toBeNull();
    for (const prefix of ["", "a", "1a", "Acme", "ac_me", "ac-me", "northwinds", "äb", "ab\n"])
      expect(prefixProblem(prefix), prefix).toContain("2 to 9");
  });

  it("is no family of our own credentials, and of no other issuer", () => {
    for (const prefix of ["krsk", "krses", "krx", "kr1"]) expect(prefixProblem(prefix)).toContain("kr");
    for (const prefix of ["sk", "pk", "ghp", "npm", "live", "api", "sq0atp", "ya29"])
      expect(prefixProblem(prefix)).toContain("another issuer");
  });

  it("is recognised in any key with a right checksum, and in none that begins with kr", () => {
    const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
    const key = formatApiKey("acme", "live", bytes);
    expect(parseCredential(key)).toEqual({ kind: "api_key", env: "live", displayPrefix: "acme_live_AAECAw" });
    expect([parseCredential(key.slice(1)), parseCredential(`x${key}`), guessCredentialKind(key)]).toEqual([
      null,
      null,
      null,
    ]);
    expect(parseCredential(formatApiKey("krx", "live", bytes))).toBeNull();
    expect(parseCredential(formatApiKey("krsk", "live", bytes))?.kind).toBe("secret_key");
  });
});
