// New credentials: random bytes come from a pool and are never used twice.
import { describe, expect, it } from "vitest";
import {
  createRandomPool,
  mint,
  mintInvite,
  onHashConflict,
  retryOnHashCollision,
} from "../../../src/domain/auth/new-credentials.ts";
import { parseCredential } from "../../../src/kernel/credentials.ts";
import { sha256Hex } from "../../../src/platform/crypto.ts";

const MANY = 2_000;
const BODY = /[_.]([A-Za-z0-9_-]{32})[0-9a-f]{8}$/;

it("every credential of any kind has 24 random bytes of its own", () => {
  const texts = Array.from({ length: MANY }, (_, i) =>
    i % 3 === 0 ? mintInvite("01890a5d-ac96-774b-bcce-b302099a8057").text : mint("api_key", "live").text,
  );
  const bodies = texts.map((text) => Buffer.from(BODY.exec(text)?.[1] ?? "", "base64url"));
  for (const body of bodies) expect(body).toHaveLength(24);
  // Compared in parts too: a repeated part would mean that bytes were used twice.
  for (const at of [0, 8, 16]) {
    expect(new Set(bodies.map((body) => body.toString("hex", at, at + 8))).size).toBe(MANY);
  }
  const ones = bodies.reduce(
    (sum, body) => sum + body.reduce((bits, byte) => bits + byte.toString(2).split("1").length - 1, 0),
    0,
  );
  expect(ones / (MANY * 24 * 8)).toBeCloseTo(0.5, 2); // ten standard deviations are 0.008
});

it("only the hash and the display prefix of a credential are stored", () => {
  const { text, stored } = mint("secret_key", "test");
  expect(stored).toEqual({ lookup_hash: sha256Hex(text), display_prefix: parseCredential(text)?.displayPrefix });
  expect(text.length - stored.display_prefix.length).toBeGreaterThan(30);
});

it("random bytes are wiped from the pool as they are taken", () => {
  let pool = new Uint8Array();
  let times = 0;
  const take = createRandomPool((bytes) => {
    pool = bytes as Uint8Array<ArrayBuffer>;
    bytes.fill(++times);
  });
  expect(take()).toEqual(new Uint8Array(24).fill(1));
  expect(pool.subarray(0, 24)).toEqual(new Uint8Array(24));
  expect(pool.subarray(24)).toEqual(new Uint8Array(31 * 24).fill(1));
  for (let i = 1; i < 32; i++) expect(take()).toEqual(new Uint8Array(24).fill(1));
  expect(pool).toEqual(new Uint8Array(32 * 24));
  expect(take()).toEqual(new Uint8Array(24).fill(2));
});

describe("a hash that exists already", () => {
  it("is replaced up to three times, and no other failure is retried", async () => {
    const attempts = async (collisions: number, error = () => onHashConflict("api_keys_lookup_hash")) => {
      let made = 0;
      const result = await retryOnHashCollision(async () => {
        if (made++ < collisions) error();
        return "made";
      }).catch(() => "failed");
      return [result, made];
    };
    expect(await attempts(0)).toEqual(["made", 1]);
    expect(await attempts(3)).toEqual(["made", 4]);
    expect(await attempts(4)).toEqual(["failed", 4]);
    const other = (): never => {
      throw new Error("disk full");
    };
    expect(await attempts(1, other)).toEqual(["failed", 1]);
  });
});
