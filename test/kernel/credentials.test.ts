import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crc32Hex } from "../../src/kernel/crypto/crc32.ts";
import {
  CREDENTIAL_PATTERN,
  type CredentialKind,
  displayPrefix,
  type Env,
  formatCredential,
  formatInviteToken,
  guessCredentialKind,
  parseCredential,
  parseInviteToken,
} from "../../src/kernel/credentials.ts";
import { toHex, utf8 } from "../../src/kernel/crypto/bytes.ts";
import { sha256 } from "../../src/kernel/crypto/sha256.ts";
import { propertyRuns } from "../../harness/rounds.ts";

const counting = Uint8Array.from({ length: 24 }, (_, i) => i);
const BODY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const WORKSPACE = "11111111-1111-4111-8111-111111111111";

const forms: [CredentialKind, Env | null, string][] = [
  ["api_key", "live", "kr_live_"],
  ["api_key", "test", "kr_test_"],
  ["secret_key", "live", "krsk_live_"],
  ["secret_key", "test", "krsk_test_"],
  ["session", null, "krses_"],
  ["bootstrap", null, "krboot_"],
  ["email_verification", null, "krev_"],
  ["password_reset", null, "krpr_"],
  ["setup", null, "krset_"],
];
const anyForm = fc.constantFrom(...forms);
const any24 = fc.uint8Array({ minLength: 24, maxLength: 24 });
const printable = fc.constantFrom(
  ...Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)),
  "\n",
  "é",
  "\0",
);

describe("the published vectors", () => {
  for (const [kind, env, text] of [
    ["api_key", "live", `kr_live_${BODY}29904bfc`],
    ["api_key", "test", `kr_test_${BODY}99ca5f79`],
    ["secret_key", "live", `krsk_live_${BODY}c18e6e29`],
    ["secret_key", "test", `krsk_test_${BODY}71d47aac`],
    ["session", null, `krses_${BODY}56351c9c`],
  ] as const) {
    it(`${text.slice(0, -40)} is formatted and parsed as published`, () => {
      expect(formatCredential(kind, env, counting)).toBe(text);
      expect(parseCredential(text)).toEqual({ kind, env, displayPrefix: `${text.slice(0, -40)}AAECAw` });
    });
  }

  it("the lookup hash is SHA-256 of the whole text", () => {
    const hash = "497e9e0756b3eec0102bb5861521c4323fda5495303e6ae1f7e927ae234754ab";
    expect(toHex(sha256(utf8(`kr_live_${BODY}29904bfc`)))).toBe(hash);
  });

  it("lengths are 48, 50 and 46", () => {
    const chars = (kind: CredentialKind, env: Env | null) => formatCredential(kind, env, counting).length;
    expect([chars("api_key", "live"), chars("secret_key", "test"), chars("session", null)]).toEqual([48, 50, 46]);
  });
});

describe("every credential", () => {
  it("round-trips, and its display prefix is the prefix and six characters", () => {
    fc.assert(
      fc.property(anyForm, any24, ([kind, env, prefix], random) => {
        const text = formatCredential(kind, env, random);
        const shown = text.slice(0, prefix.length + 6);
        expect(parseCredential(text)).toEqual({ kind, env, displayPrefix: shown });
        expect(displayPrefix(text)).toBe(shown);
        expect(guessCredentialKind(text)).toBe(kind);
      }),
    );
  });

  it("is matched completely in surrounding text by exactly one published pattern", () => {
    fc.assert(
      fc.property(anyForm, any24, ([kind, env], random) => {
        const text = formatCredential(kind, env, random);
        const found = CREDENTIAL_PATTERN.flatMap((source) => `token="${text}";`.match(new RegExp(source))?.[0] ?? []);
        expect(found).toEqual([text]);
      }),
    );
  });

  it("is rejected after a change of any one character", () => {
    fc.assert(
      fc.property(anyForm, any24, fc.nat(), printable, ([kind, env], random, at, char) => {
        const text = formatCredential(kind, env, random);
        const i = at % text.length;
        fc.pre(text[i] !== char);
        // CRC-32 detects every burst of up to 32 bits, so no single change keeps it valid.
        expect(parseCredential(text.slice(0, i) + char + text.slice(i + 1))).toBeNull();
      }),
      { numRuns: propertyRuns(5_000) },
    );
  });

  it("is rejected with a prefix or suffix, truncated, or with its CRC in upper case", () => {
    fc.assert(
      fc.property(anyForm, any24, printable, ([kind, env], random, char) => {
        const text = formatCredential(kind, env, random);
        expect(parseCredential(text + char)).toBeNull();
        expect(parseCredential(char + text)).toBeNull();
        expect(parseCredential(text.slice(0, -1))).toBeNull();
        const upper = text.slice(0, -8) + text.slice(-8).toUpperCase();
        expect(parseCredential(upper) === null).toBe(upper !== text);
      }),
    );
  });

  it("is rejected under another prefix with the same body", () => {
    const text = `krev_${BODY}${crc32Hex(`krpr_${BODY}`)}`;
    expect(parseCredential(text)).toBeNull();
    expect(parseCredential(`krxx_${BODY}${crc32Hex(`krxx_${BODY}`)}`)).toBeNull();
    expect(parseCredential(`kr_prod_${BODY}${crc32Hex(`kr_prod_${BODY}`)}`)).toBeNull();
  });

  it("is rejected with a body outside the alphabet, even with a valid CRC", () => {
    const head = `kr_live_${BODY.slice(0, 31)}.`;
    expect(parseCredential(head + crc32Hex(head))).toBeNull();
  });
});

describe("parsing", () => {
  it("never throws and never accepts other text", () => {
    const anyText = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.tuple(anyForm, fc.string({ unit: "binary", maxLength: 50 })).map(([[, , prefix], rest]) => prefix + rest),
    );
    fc.assert(
      fc.property(anyText, (text) => {
        expect(parseCredential(text)).toBeNull();
        expect(parseInviteToken(text)).toBeNull();
        displayPrefix(text);
        guessCredentialKind(text);
      }),
    );
  });

  for (const [text, kind] of [
    ["krsk_liev_mistyped", "secret_key"],
    ["kr_", "api_key"],
    ["krses_", "session"],
    ["krboot_x", "bootstrap"],
    ["krev_x", "email_verification"],
    ["krpr_x", "password_reset"],
    ["krskx_live_", null],
    ["kr", null],
    ["KRSK_live_", null],
    ["Bearer kr_live_", null],
    ["", null],
  ] as const) {
    it(`${JSON.stringify(text)} looks like ${kind ?? "nothing known"}`, () => {
      expect(guessCredentialKind(text)).toBe(kind);
    });
  }

  it("gives no display prefix for text without a known prefix", () => {
    expect(displayPrefix("hunter2hunter2")).toBe("");
  });
});

describe("formatting", () => {
  it("rejects the wrong number of random bytes", () => {
    expect(() => formatCredential("api_key", "live", new Uint8Array(23))).toThrow(RangeError);
    expect(() => formatInviteToken(WORKSPACE, new Uint8Array(25))).toThrow(RangeError);
  });

  it("rejects an env for a kind without one, and no env for a kind with one", () => {
    expect(() => formatCredential("session", "live", counting)).toThrow(RangeError);
    expect(() => formatCredential("api_key", null, counting)).toThrow(RangeError);
  });
});

describe("an invitation token", () => {
  it("is the workspace id, a dot, the body and a CRC over all of them", () => {
    const token = formatInviteToken(WORKSPACE, counting);
    expect(token).toBe(`${WORKSPACE}.${BODY}${crc32Hex(`${WORKSPACE}.${BODY}`)}`);
    expect(token).toHaveLength(77);
    expect(parseInviteToken(token)).toEqual({ workspace_id: WORKSPACE, secret: token.slice(37) });
  });

  it("is rejected after any one-character change, including the workspace id", () => {
    fc.assert(
      fc.property(any24, fc.nat(76), printable, (random, i, char) => {
        const token = formatInviteToken(WORKSPACE, random);
        fc.pre(token[i] !== char);
        expect(parseInviteToken(token.slice(0, i) + char + token.slice(i + 1))).toBeNull();
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it("is rejected without the dot, even with a valid CRC", () => {
    expect(parseInviteToken(`${WORKSPACE}_${BODY}${crc32Hex(`${WORKSPACE}_${BODY}`)}`)).toBeNull();
  });

  it("has one spelling: an upper-case workspace id is rejected", () => {
    const id = "ABCDEF00-1111-4111-8111-111111111111";
    expect(parseInviteToken(`${id}.${BODY}${crc32Hex(`${id}.${BODY}`)}`)).toBeNull();
    expect(() => formatInviteToken(id, counting)).toThrow(RangeError);
  });
});
