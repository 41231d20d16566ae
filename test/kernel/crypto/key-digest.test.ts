// The fused validation and hash, compared with node:crypto and parseCredential: the same verdict and the same hash.

import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  digestApiKey,
  digestSingleBlock,
  KeyFormats,
  LIVE_KEY,
  NOT_A_KEY,
  TEST_KEY,
} from "../../../src/kernel/crypto/key-digest.ts";
import { DIGEST } from "../../../src/kernel/crypto/sha256-block.ts";
import { formatApiKey, formatCredential, parseCredential } from "../../../src/kernel/credentials.ts";

const VECTOR = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
const VECTOR_HASH = "497e9e0756b3eec0102bb5861521c4323fda5495303e6ae1f7e927ae234754ab";

const digestHex = () => Buffer.from(Int32Array.from(DIGEST).buffer).swap32().toString("hex");
const mint = (env: "live" | "test") => formatCredential("api_key", env, randomBytes(24));

describe("digestApiKey", () => {
  it("hashes the published vector", () => {
    expect(digestApiKey(VECTOR, 0)).toBe(LIVE_KEY);
    expect(digestHex()).toBe(VECTOR_HASH);
  });

  it("hashes a thousand keys of both environments as node:crypto does, at any offset", () => {
    for (let i = 0; i < 1000; i++) {
      const env = i % 2 ? "live" : "test";
      const key = mint(env);
      const before = "x".repeat(i % 11);
      expect(digestApiKey(before + key, before.length)).toBe(env === "live" ? LIVE_KEY : TEST_KEY);
      expect(digestHex()).toBe(createHash("sha256").update(key).digest("hex"));
    }
  });

  it("accepts exactly what parseCredential accepts, with any single character changed", () => {
    const others = ["A", "a", "0", "f", "g", "-", "_", "+", "/", "=", " ", "\n", "\0", "é", "Á", "Ł", "😀"];
    for (let at = 0; at < VECTOR.length; at++) {
      for (const other of others) {
        const text = VECTOR.slice(0, at) + other + VECTOR.slice(at + 1);
        const plain = `${other} at ${at}: ${parseCredential(text)?.kind === "api_key"}`;
        expect(`${other} at ${at}: ${digestApiKey(text, 0) !== NOT_A_KEY}`).toBe(plain);
      }
    }
  });

  it("rejects a character whose low seven bits would be valid", () => {
    const shifted = VECTOR.slice(0, 20) + String.fromCharCode(VECTOR.charCodeAt(20) + 128) + VECTOR.slice(21);
    const wide = VECTOR.slice(0, 20) + String.fromCharCode(VECTOR.charCodeAt(20) + 0x100) + VECTOR.slice(21);
    expect([digestApiKey(shifted, 0), digestApiKey(wide, 0)]).toEqual([NOT_A_KEY, NOT_A_KEY]);
  });

  it("rejects an upper-case checksum, other credentials and other lengths", () => {
    const upper = VECTOR.slice(0, 40) + VECTOR.slice(40).toUpperCase();
    const secret = formatCredential("secret_key", "live", randomBytes(24));
    const texts = [upper, secret, `${VECTOR}0`, VECTOR.slice(1), VECTOR.slice(0, 47), "", " ".repeat(48)];
    expect(texts.filter((text) => digestApiKey(text, 0) !== NOT_A_KEY)).toEqual([]);
    expect(digestApiKey(VECTOR, 1)).toBe(NOT_A_KEY);
    expect(digestApiKey(VECTOR, -1)).toBe(NOT_A_KEY);
  });
});

describe("digestApiKey with a project's own prefix", () => {
  const BYTES = Uint8Array.from({ length: 24 }, (_, i) => i);
  const VECTORS = {
    acme_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX5d807697:
      "41800d3a20b4f9ed4c7e92bb95e90d33fc151f224b779b467be7798cf237fc31",
    northwind_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX51bb1010:
      "bcc60e46abb4d9b667cf9fd93b1a11bb6865ac5d23cd62ccd041204ca9a51123",
  };
  const PREFIXES = ["ab", "abc", "acme", "abcde", "abcdef", "abcdefg", "abcdefgh", "northwind"];

  it("hashes the published vectors", () => {
    const formats = new KeyFormats(["acme", "northwind"]);
    for (const [key, hash] of Object.entries(VECTORS)) {
      expect(digestApiKey(key, 0, formats)).toBe(LIVE_KEY);
      expect(digestHex()).toBe(hash);
    }
    expect(formatApiKey("acme", "test", BYTES)).toBe("acme_test_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXedda6212");
    expect(digestApiKey(formatApiKey("acme", "test", BYTES), 0, formats)).toBe(TEST_KEY);
  });

  it("hashes keys of every length as node:crypto does, at any offset, and those of ours beside them", () => {
    const formats = new KeyFormats(["kr", ...PREFIXES]);
    for (const [i, prefix] of [...PREFIXES, ...PREFIXES, "kr"].entries()) {
      const env = i < PREFIXES.length ? "live" : "test";
      const key = formatApiKey(prefix, env, randomBytes(24));
      expect(digestApiKey("x".repeat(i) + key, i, formats)).toBe(env === "live" ? LIVE_KEY : TEST_KEY);
      expect(digestHex()).toBe(createHash("sha256").update(key).digest("hex"));
    }
  });

  it("accepts exactly what parseCredential accepts, with any single character changed", () => {
    const formats = new KeyFormats(["acme"]);
    const key = Object.keys(VECTORS)[0] as string;
    for (let at = 0; at < key.length; at++) {
      for (const other of ["a", "0", "f", "g", "-", "_", "/", " ", "\0", "é", "Ł"]) {
        const text = key.slice(0, at) + other + key.slice(at + 1);
        const right = parseCredential(text)?.displayPrefix.startsWith("acme_") ?? false;
        expect(`${other} at ${at}: ${digestApiKey(text, 0, formats) !== NOT_A_KEY}`).toBe(
          `${other} at ${at}: ${right}`,
        );
      }
    }
  });

  it("accepts the prefixes of the policy and no other, although the checksum is right", () => {
    const acme = new KeyFormats(["acme"]);
    const texts = ["cme", "acmes", "kr", "ac", "northwind"].map((prefix) => formatApiKey(prefix, "live", BYTES));
    expect(texts.filter((text) => digestApiKey(text, 0, acme) !== NOT_A_KEY)).toEqual([]);
    expect(digestApiKey(formatApiKey("acme", "live", BYTES), 0)).toBe(NOT_A_KEY);
    expect([acme.begin("Bearer acme_x", 7), acme.begin("acmes_x", 0), acme.begin("acme", 0)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe("digestSingleBlock", () => {
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

  it("equals node:crypto, regardless of what was hashed before", () => {
    for (let length = 0; length <= 55; length++) {
      const text = randomBytes(55).toString("base64url").slice(0, length);
      expect(`${length}: ${digestSingleBlock(text)} ${digestHex()}`).toBe(`${length}: true ${sha256(text)}`);
      const key = mint("live");
      digestApiKey(key, 0);
      expect(`after ${length}: ${digestHex()}`).toBe(`after ${length}: ${sha256(key)}`);
    }
  });

  it("returns false for longer or non-ASCII text, and leaves the last digest unchanged", () => {
    digestSingleBlock("the last one");
    for (const text of ["x".repeat(56), "é", "x\u0080", "Ł", "😀", `${"x".repeat(54)}ÿ`]) {
      expect([text, digestSingleBlock(text), digestHex()]).toEqual([text, false, sha256("the last one")]);
    }
  });
});
