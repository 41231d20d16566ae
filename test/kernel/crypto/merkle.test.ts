import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromHex, toHex } from "../../../src/kernel/crypto/bytes.ts";
import { MerkleTree } from "../../../src/kernel/crypto/merkle.ts";

const hash = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash("sha256").update(bytes).digest());

/** RFC 6962 §2.1 literally: splits at the largest power of two smaller than n. */
function naiveRoot(leaves: Uint8Array[]): Uint8Array {
  const [first] = leaves;
  if (!first) return hash(new Uint8Array(0));
  if (leaves.length === 1) return hash(Uint8Array.of(0, ...first));
  const k = 2 ** Math.ceil(Math.log2(leaves.length) - 1);
  return hash(Uint8Array.of(1, ...naiveRoot(leaves.slice(0, k)), ...naiveRoot(leaves.slice(k))));
}

function treeOf(leaves: Uint8Array[]): MerkleTree {
  const tree = new MerkleTree(hash);
  for (const leaf of leaves) tree.append(leaf);
  return tree;
}

// The eight leaves and roots that the Certificate Transparency implementations test with.
const leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"].map(
  fromHex,
);
const roots = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

describe("MerkleTree", () => {
  for (const [size, root] of roots.entries()) {
    it(`has the known root at size ${size}, equal to the recursive definition`, () => {
      const tree = treeOf(leaves.slice(0, size));
      expect(tree.size).toBe(size);
      expect(toHex(tree.root())).toBe(root);
      expect(toHex(naiveRoot(leaves.slice(0, size)))).toBe(root);
    });
  }

  it("agrees with the recursive definition at every size up to 130", () => {
    const many = Array.from({ length: 130 }, (_, i) => hash(Uint8Array.of(i)));
    const tree = new MerkleTree(hash);
    for (const [i, leaf] of many.entries()) {
      tree.append(leaf);
      expect(tree.root()).toEqual(naiveRoot(many.slice(0, i + 1)));
    }
  });

  it("continues from a saved frontier", () => {
    const anyLeaves = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 40 });
    fc.assert(
      fc.property(anyLeaves, anyLeaves, (before, after) => {
        const first = treeOf(before);
        const frontier = first.frontier();
        const restored = new MerkleTree(hash, { size: first.size, frontier });
        for (const leaf of after) {
          first.append(leaf);
          restored.append(leaf);
        }
        expect(restored.root()).toEqual(first.root());
        expect(restored.root()).toEqual(naiveRoot([...before, ...after]));
        expect(frontier).toEqual(treeOf(before).frontier());
      }),
    );
  });

  it("rejects a frontier that does not match the size", () => {
    const root = new Uint8Array(32);
    for (const saved of [
      { size: 1, frontier: [] },
      { size: 0, frontier: [root] },
      { size: 4, frontier: [root, root] },
      { size: -1, frontier: [] },
      { size: 1.5, frontier: [root] },
    ]) {
      expect(() => new MerkleTree(hash, saved)).toThrow(RangeError);
    }
  });

  it("hashes leaves and nodes differently, so that a node cannot pass for a leaf", () => {
    const [a, b] = [hash(Uint8Array.of(1)), hash(Uint8Array.of(2))];
    const inner = Uint8Array.of(...treeOf([a]).root(), ...treeOf([b]).root());
    expect(treeOf([inner]).root()).not.toEqual(treeOf([a, b]).root());
  });
});
