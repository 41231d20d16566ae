// The fused validation and hash, compared with node:crypto and parseCredential: the same verdict and the same hash.

import { createHash, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  digestApiKey,
  digestSingleBlock,
  LIVE_KEY,
  NOT_A_KEY,
  TEST_KEY,
} from "../../../src/kernel/crypto/key-digest.ts";
import { DIGEST } from "../../../src/kernel/crypto/sha256-block.ts";
import { formatCredential, parseCredential } from "../../../src/kernel/credentials.ts";

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
