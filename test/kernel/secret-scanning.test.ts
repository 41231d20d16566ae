// The published patterns for secret scanners: they match every credential completely, and little else.
import { readFileSync } from "node:fs";
import { parse } from "smol-toml";
import { describe, expect, it } from "vitest";
import { CREDENTIAL_PATTERN, formatCredential, parseCredential } from "../../src/kernel/credentials.ts";

const read = (name: string): string =>
  readFileSync(new URL(`../../docs/secret-scanning/${name}`, import.meta.url), "utf8");

type Rule = { regex: string; keywords: string[] };

const gitleaks = (parse(read("gitleaks.toml")) as unknown as { rules: Rule[] }).rules;
const trufflehog: Rule[] = [...read("trufflehog.yaml").matchAll(/keywords: \[(.*)\]\n +regex:\n +\w+: '(.*)'/g)].map(
  ([, words = "", regex = ""]) => ({ regex, keywords: words.split(", ") }),
);
const page = [...read("README.md").matchAll(/```regex\n(.*)\n```/g)].map(([, regex = ""]) => regex);

const random = Uint8Array.from({ length: 24 }, (_, i) => (i * 37) % 256);
const SAMPLES = [
  formatCredential("api_key", "live", random),
  formatCredential("api_key", "test", random),
  formatCredential("secret_key", "live", random),
  formatCredential("secret_key", "test", random),
  formatCredential("session", null, random),
  formatCredential("bootstrap", null, random),
  formatCredential("email_verification", null, random),
  formatCredential("password_reset", null, random),
  formatCredential("setup", null, random),
  "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc",
  "krsk_test_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX71d47aac",
];
const PLACES = [
  (key: string) => key,
  (key: string) => `KEY=${key}\n`,
  (key: string) => `curl -H "authorization: Bearer ${key}" https://api.example`,
  (key: string) => `{"apiKey":"${key}"}`,
  (key: string) => `https://${key}@example.com/?a=1`,
  (key: string) => `x${key}`,
];
const NOT_OURS = [
  "kr_live_tooshort29904bfc",
  "kr_prod_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc",
  "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904BFC",
  "kr_live_AAECAwQFBgcICQoL+A0ODxAREhMUFRYX29904bfc",
  "sk_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc",
  "AKIAIOSFODNN7EXAMPLE",
];

describe.each([
  ["the kernel", [...CREDENTIAL_PATTERN]],
  ["the page", page],
  ["gitleaks", gitleaks.map(({ regex }) => regex)],
  ["trufflehog", trufflehog.map(({ regex }) => regex)],
])("the patterns of %s", (_name, patterns) => {
  const found = (text: string): string[] => patterns.flatMap((p) => text.match(new RegExp(p, "g")) ?? []);

  it("are two, and match every credential completely in any surrounding text", () => {
    expect(patterns).toHaveLength(2);
    for (const sample of SAMPLES) for (const place of PLACES) expect(found(place(sample))).toEqual([sample]);
  });

  it("do not match other tokens", () => {
    for (const text of NOT_OURS) expect(found(text), text).toEqual([]);
  });
});

describe("the published scanner rules", () => {
  it("name a keyword that every credential contains: scanners try a rule only where one occurs", () => {
    for (const { keywords, regex } of [...gitleaks, ...trufflehog]) {
      for (const sample of SAMPLES.filter((text) => new RegExp(regex).test(text)))
        expect(
          keywords.some((word) => sample.includes(word)),
          sample,
        ).toBe(true);
    }
  });

  it("capture nothing but the whole match: both tools take a group for the secret", () => {
    for (const { regex } of [...gitleaks, ...trufflehog]) expect(regex).not.toMatch(/\((?!\?:)/);
  });

  it("include a sample with a valid CRC and one with an invalid CRC", () => {
    const shown = read("README.md").match(/kr_live_[A-Za-z0-9_-]{40}/g) ?? [];
    expect(shown.map((text) => parseCredential(text) !== null)).toEqual([true, false]);
  });
});
