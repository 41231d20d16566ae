import { createHash, createPrivateKey, createPublicKey, sign, verify as verifySignature } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromBase64, fromHex, toBase64, toHex, utf8 } from "../../../src/kernel/crypto/bytes.ts";
import { MerkleTree } from "../../../src/kernel/crypto/merkle.ts";
import {
  formatCheckpoint,
  formatNote,
  computeKeyId,
  openNote,
  parseCheckpoint,
  parseNote,
  parseVkey,
  splitNotes,
  type VerifierKey,
  formatVkey,
} from "../../../src/kernel/crypto/signed-note.ts";

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash("sha256").update(bytes).digest());
const privateKeyOf = (seed: number) =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, seed)]),
    format: "der",
    type: "pkcs8",
  });
const publicBytes = (seed: number) =>
  new Uint8Array(createPublicKey(privateKeyOf(seed)).export({ format: "der", type: "spki" }).subarray(-32));
const verify = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array) => {
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), publicKey]);
  return verifySignature(null, message, createPublicKey({ key: spki, format: "der", type: "spki" }), signature);
};

const NAME = "keyrack.example.com/audit/11111111-1111-4111-8111-111111111111";
const VKEY = `${NAME}+a3522932+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs`;
const ROOT = "sCgpghT2NPsfArPB9CexjJLwOEQieIddaC1p0SiTq8w=";
const ROW_HASHES = [
  "2a50bfc06d8753e9924e878295b293cdcec7f4d21b8b485636c8f247c52db0c4",
  "8d6e35a7c06175cc3d4855e8c72aad011b1715cf4c87aa11243fffd12c747540",
];

const text = formatCheckpoint(NAME, 2, fromBase64(ROOT));
const id = computeKeyId(NAME, publicBytes(7), sha256);
const note = formatNote(text, NAME, id, sign(null, utf8(text), privateKeyOf(7)));
const key = parseVkey(VKEY, sha256) as VerifierKey;
const line = (name: string, bytes: Uint8Array) => `— ${name} ${toBase64(bytes)}\n`;

describe("the published checkpoint", () => {
  it("has the root of the two rows", () => {
    const tree = new MerkleTree(sha256);
    for (const hash of ROW_HASHES) tree.append(fromHex(hash));
    expect(toBase64(tree.root())).toBe(ROOT);
    expect(text).toBe(`${NAME}\n2\n${ROOT}\n`);
  });

  it("has the verifier key of seed 07", () => {
    expect(formatVkey(NAME, publicBytes(7), sha256)).toBe(VKEY);
    expect(toHex(key.keyId)).toBe("a3522932");
    expect(key).toEqual({ name: NAME, keyId: id, publicKey: publicBytes(7) });
  });

  it("has the Ed25519 signature, which is deterministic", () => {
    expect(note).toBe(
      `${text}\n— ${NAME} o1IpMtQWzhW9yTtAvuwZD5GicSy4r71SISqFqReiFcFt564k/v167mUU6wcEU8dsCEdJekumjFa9ESSsMnoqxFSZLQY=\n`,
    );
    expect(openNote(note, key, verify)).toBe(text);
  });
});

describe("a note of another implementation", () => {
  // The example of golang.org/x/mod/sumdb/note.
  const goText =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
  const goNote = `${goText}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`;
  const goKey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

  it("opens with its key", () => {
    expect(openNote(goNote, parseVkey(goKey, sha256) as VerifierKey, verify)).toBe(goText);
  });

  it("does not open with ours", () => {
    expect(openNote(goNote, key, verify)).toBeNull();
  });
});

describe("openNote", () => {
  it("rejects a change of any character in the signed text", () => {
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.constantFrom(..."0aZ/\n ".split("")), (i, char) => {
        fc.pre(text[i] !== char);
        expect(openNote(note.slice(0, i) + char + note.slice(i + 1), key, verify)).toBeNull();
      }),
    );
  });

  it("ignores further signatures: other names, and our name with another key id", () => {
    const others = line("witness.example/w1", new Uint8Array(76)) + line(NAME, new Uint8Array(2424));
    expect(openNote(note + others, key, verify)).toBe(text);
    expect(openNote(note.replace(`${text}\n`, `${text}\n${others}`), key, verify)).toBe(text);
    expect(parseNote(note + others)?.signatures).toHaveLength(3);
  });

  it("rejects a note with a second, bad signature of our key", () => {
    const bad = new Uint8Array(68);
    bad.set(key.keyId);
    expect(openNote(note + line(NAME, bad), key, verify)).toBeNull();
  });

  it("rejects a signature of another key under our name and key id", () => {
    expect(openNote(formatNote(text, NAME, id, sign(null, utf8(text), privateKeyOf(8))), key, verify)).toBeNull();
  });
});

describe("parseNote", () => {
  it("splits at the last empty line", () => {
    const poem = "one\n\ntwo\n";
    expect(parseNote(formatNote(poem, "a", id, new Uint8Array(64)))?.text).toBe(poem);
  });

  for (const [why, broken] of [
    ["nothing", ""],
    ["no signature", `${text}\n`],
    ["no empty line", note.replace("\n\n", "\n")],
    ["no last newline", note.slice(0, -1)],
    ["another last character", `${note.slice(0, -1)}x`],
    ["an empty line at the end", `${note}\n`],
    ["Windows newlines", note.replaceAll("\n", "\r\n")],
    ["a tab", note.replace("keyrack", "key\track")],
    ["a hyphen for the dash", note.replace("—", "-")],
    ["a plus in the name", note.replace(`— ${NAME}`, "— a+b")],
    ["unpadded base64", note.replace("LQY=", "LQY")],
    ["a signature of four bytes", `${text}\n${line(NAME, new Uint8Array(4))}`],
    ["a lone surrogate", `\ud800${note}`],
    ["more lines than anyone signs", note + line("w", new Uint8Array(68)).repeat(64)],
  ] as const) {
    it(`rejects ${why}`, () => {
      expect(parseNote(broken)).toBeNull();
    });
  }

  it("returns null for noise and never throws", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(..."a1=+/ —\n\r".split("")), minLength: 1, maxLength: 60 }),
        (noise) => {
          expect(parseNote(noise)).toBeNull();
          expect(parseNote(note + noise)).toBeNull();
          expect(parseVkey(noise, sha256)).toBeNull();
          expect(parseCheckpoint(noise)).toBeNull();
        },
      ),
    );
  });
});

describe("splitNotes", () => {
  const cosigned = note + line("witness.example", new Uint8Array(68));
  it.each([
    ["one note", note, [note]],
    ["an empty line after each", `${note}\n${cosigned}\n`, [note, cosigned]],
    ["nothing between them", note + cosigned + note, [note, cosigned, note]],
    ["a torn one at the end", `${note}\n${note.slice(0, -3)}`, [note, note.slice(0, -3)]],
    ["an empty file", "", []],
  ])("finds the notes of a file with %s", (_what, file, notes) => {
    expect(splitNotes(file)).toEqual(notes);
  });
});

describe("parseVkey", () => {
  for (const [why, broken] of [
    ["another key id", VKEY.replace("a3522932", "a3522933")],
    ["another name", VKEY.replace("example", "evil")],
    ["another algorithm", `${NAME}+a3522932+${toBase64(Uint8Array.of(2, ...publicBytes(7)))}`],
    ["a short key", VKEY.slice(0, -4)],
    ["a space in the name", `a b+${VKEY.slice(NAME.length + 1)}`],
    ["a newline behind", `${VKEY}\n`],
    ["nothing", ""],
  ] as const) {
    it(`rejects ${why}`, () => {
      expect(parseVkey(broken, sha256)).toBeNull();
    });
  }

  it("parses every key of formatVkey, including plus signs in the base64", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (publicKey) => {
        expect(parseVkey(formatVkey("a.example/x", publicKey, sha256), sha256)?.publicKey).toEqual(publicKey);
      }),
    );
  });

  it("formatVkey rejects a name with a space or a plus", () => {
    for (const name of ["", "a b", "a+b", "a\u00a0b"]) {
      expect(() => formatVkey(name, publicBytes(7), sha256)).toThrow(RangeError);
    }
  });
});

describe("parseCheckpoint", () => {
  it("parses the output of formatCheckpoint, and ignores extension lines", () => {
    const expected = { origin: NAME, size: 2, root: fromBase64(ROOT) };
    expect(parseCheckpoint(text)).toEqual(expected);
    expect(parseCheckpoint(`${text}extension\n`)).toEqual(expected);
  });

  for (const [why, broken] of [
    ["no final newline", text.slice(0, -1)],
    ["two lines", `${NAME}\n2\n`],
    ["an empty line", `${text}\n`],
    ["a leading zero", text.replace("\n2\n", "\n02\n")],
    ["a sign", text.replace("\n2\n", "\n+2\n")],
    ["a size past 2^53", text.replace("\n2\n", "\n9007199254740993\n")],
    ["a short root", text.replace(ROOT, ROOT.slice(4))],
    ["no origin", text.slice(NAME.length)],
  ] as const) {
    it(`rejects ${why}`, () => {
      expect(parseCheckpoint(broken)).toBeNull();
    });
  }

  it("formatCheckpoint rejects what could not be parsed", () => {
    const root = new Uint8Array(32);
    expect(() => formatCheckpoint("", 1, root)).toThrow(RangeError);
    expect(() => formatCheckpoint("a\nb", 1, root)).toThrow(RangeError);
    expect(() => formatCheckpoint("a", 1.5, root)).toThrow(RangeError);
    expect(() => formatCheckpoint("a", -1, root)).toThrow(RangeError);
    expect(() => formatCheckpoint("a", 1, new Uint8Array(31))).toThrow(RangeError);
  });
});
