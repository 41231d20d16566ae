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
    it(`${text.slice(0, -40)} is written and read as published`, () => {
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
  it("is read back as what it was made, and only its own prefix and six characters are shown", () => {
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

  it("is found whole in surrounding text by exactly one published pattern", () => {
    fc.assert(
      fc.property(anyForm, any24, ([kind, env], random) => {
        const text = formatCredential(kind, env, random);
        const found = CREDENTIAL_PATTERN.flatMap((source) => `token="${text}";`.match(new RegExp(source))?.[0] ?? []);
        expect(found).toEqual([text]);
      }),
    );
  });

  it("is refused after a change of any one character", () => {
    fc.assert(
      fc.property(anyForm, any24, fc.nat(), printable, ([kind, env], random, at, char) => {
        const text = formatCredential(kind, env, random);
        const i = at % text.length;
        fc.pre(text[i] !== char);
        // A CRC-32 sees every burst of up to 32 bits, so no single change can keep it right.
        expect(parseCredential(text.slice(0, i) + char + text.slice(i + 1))).toBeNull();
      }),
      { numRuns: 5000 },
    );
  });

  it("is refused with anything before or behind it, cut short, or with its CRC in upper case", () => {
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

  it("is refused under another prefix, even with the same body", () => {
    const text = `krev_${BODY}${crc32Hex(`krpr_${BODY}`)}`;
    expect(parseCredential(text)).toBeNull();
    expect(parseCredential(`krxx_${BODY}${crc32Hex(`krxx_${BODY}`)}`)).toBeNull();
    expect(parseCredential(`kr_prod_${BODY}${crc32Hex(`kr_prod_${BODY}`)}`)).toBeNull();
  });

  it("needs a body of the alphabet even when the CRC is right", () => {
    const head = `kr_live_${BODY.slice(0, 31)}.`;
    expect(parseCredential(head + crc32Hex(head))).toBeNull();
  });
});

describe("reading", () => {
  it("never throws and never accepts what was not made here", () => {
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

  it("shows nothing of a text without a known prefix", () => {
    expect(displayPrefix("hunter2hunter2")).toBe("");
  });
});

describe("writing", () => {
  it("refuses the wrong number of random bytes", () => {
    expect(() => formatCredential("api_key", "live", new Uint8Array(23))).toThrow(RangeError);
    expect(() => formatInviteToken(WORKSPACE, new Uint8Array(25))).toThrow(RangeError);
  });

  it("refuses an env where there is none, and none where there is one", () => {
    expect(() => formatCredential("session", "live", counting)).toThrow(RangeError);
    expect(() => formatCredential("api_key", null, counting)).toThrow(RangeError);
  });
});

describe("an invitation token", () => {
  it("is the workspace id, a dot, the body and a CRC over all before it", () => {
    const token = formatInviteToken(WORKSPACE, counting);
    expect(token).toBe(`${WORKSPACE}.${BODY}${crc32Hex(`${WORKSPACE}.${BODY}`)}`);
    expect(token).toHaveLength(77);
    expect(parseInviteToken(token)).toEqual({ workspace_id: WORKSPACE, secret: token.slice(37) });
  });

  it("is refused after any one-character change, in the workspace id too", () => {
    fc.assert(
      fc.property(any24, fc.nat(76), printable, (random, i, char) => {
        const token = formatInviteToken(WORKSPACE, random);
        fc.pre(token[i] !== char);
        expect(parseInviteToken(token.slice(0, i) + char + token.slice(i + 1))).toBeNull();
      }),
      { numRuns: 2000 },
    );
  });

  it("needs the dot even when the CRC is right", () => {
    expect(parseInviteToken(`${WORKSPACE}_${BODY}${crc32Hex(`${WORKSPACE}_${BODY}`)}`)).toBeNull();
  });

  it("has one spelling: an upper-case workspace id is refused", () => {
    const id = "ABCDEF00-1111-4111-8111-111111111111";
    expect(parseInviteToken(`${id}.${BODY}${crc32Hex(`${id}.${BODY}`)}`)).toBeNull();
    expect(() => formatInviteToken(id, counting)).toThrow(RangeError);
  });
});
