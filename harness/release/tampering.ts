// Ways in which the files of a release can be wrong. Whatever reads a release must refuse every one of them, change
// nothing, and name the file.
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SshKey } from "./ssh-key.ts";

type Tampering = {
  what: string;
  /** `key` is the one that signed the release in `dir`. */
  tamper: (dir: string, key: SshKey) => void;
  /** The file that the refusal must name. */
  names: string;
};

/** Inverts one bit in the middle of a file. */
export function flipBit(file: string): void {
  const bytes = readFileSync(file);
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(file, bytes);
}

function swapFiles(one: string, other: string): void {
  renameSync(one, `${one}.swap`);
  renameSync(other, one);
  renameSync(`${one}.swap`, other);
}

const sums = (dir: string): Buffer => readFileSync(join(dir, "SHA256SUMS"));
const writeSignature = (dir: string, text: string): void => writeFileSync(join(dir, "SHA256SUMS.sig"), text);

/** `tarball` and `other` are the tarballs of this machine's architecture and of the other one. */
export const tamperings = (tarball: string, other: string): Tampering[] => [
  { what: "one flipped bit in a tarball", tamper: (dir) => flipBit(join(dir, tarball)), names: tarball },
  { what: "one flipped bit in SHA256SUMS", tamper: (dir) => flipBit(join(dir, "SHA256SUMS")), names: "SHA256SUMS" },
  {
    what: "one flipped bit in the signature",
    tamper: (dir) => flipBit(join(dir, "SHA256SUMS.sig")),
    names: "SHA256SUMS.sig",
  },
  {
    what: "a signature by another key",
    tamper: (dir) => writeSignature(dir, new SshKey().sign(sums(dir))),
    names: "SHA256SUMS.sig",
  },
  {
    what: "a signature for another namespace",
    tamper: (dir, key) => writeSignature(dir, key.sign(sums(dir), { namespace: "file" })),
    names: "SHA256SUMS.sig",
  },
  {
    what: "a signature of other sums",
    tamper: (dir, key) => writeSignature(dir, key.sign(Buffer.concat([sums(dir), Buffer.from("\n")]))),
    names: "SHA256SUMS.sig",
  },
  {
    what: "an empty signature",
    tamper: (dir) => writeSignature(dir, ""),
    names: "SHA256SUMS.sig",
  },
  { what: "no signature", tamper: (dir) => rmSync(join(dir, "SHA256SUMS.sig")), names: "SHA256SUMS.sig" },
  { what: "no SHA256SUMS", tamper: (dir) => rmSync(join(dir, "SHA256SUMS")), names: "SHA256SUMS" },
  {
    what: "two swapped files",
    tamper: (dir) => swapFiles(join(dir, tarball), join(dir, other)),
    names: tarball,
  },
  { what: "a missing file", tamper: (dir) => rmSync(join(dir, tarball)), names: tarball },
];
