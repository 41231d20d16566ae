// Checks the files of a release against its SHA256SUMS, and that against its signature. Reads files only: no network,
// and no other program. Nothing in SHA256SUMS is used before its signature is known to be good.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { sha256File } from "../../../backup/files.ts";
import { ExitError } from "../../ui/output.ts";
import { BadSignature, fingerprint, verifySignature, type AllowedSigner } from "./ssh-signature.ts";
import { MIB } from "../../../kernel/sizes.ts";

/** Who signs a release, and for what use. */
export const IDENTITY = "release@keyrack";
export const NAMESPACE = "keyrack-release";

export const SUMS = "SHA256SUMS";
export const SIGNATURE = "SHA256SUMS.sig";
/** Both files are small; a larger one is not read. */
const SMALL_BYTES = MIB;

export type FileResult = { name: string; ok: boolean; reason: string | null };
export type ReleaseReport = { ok: boolean; version: string | null; signer: string | null; files: FileResult[] };

/** Ends the verification: without good sums nothing can be said about any other file. */
class Unusable extends Error {
  readonly file: string;
  constructor(file: string, reason: string) {
    super(reason);
    this.file = file;
  }
}

/** The folder of all paths, and the names given; null for the whole folder. */
function selectFiles(paths: readonly string[]): { folder: string; names: string[] | null } {
  const places = paths.map((path) => {
    const full = resolve(path);
    return statSync(full, { throwIfNoEntry: false })?.isDirectory()
      ? { folder: full, name: null }
      : { folder: dirname(full), name: basename(full) };
  });
  const [{ folder } = { folder: "" }] = places;
  if (places.some((place) => place.folder !== folder))
    throw new ExitError(`All paths must be in one folder, beside its ${SUMS}.`, 2);
  const names = places.map(({ name }) => name).filter((name) => name !== null);
  return { folder, names: names.length < places.length ? null : names };
}

function readSmall(folder: string, name: string): Buffer {
  const path = join(folder, name);
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new Unusable(name, "missing");
  if (!stat.isFile() || stat.size > SMALL_BYTES) throw new Unusable(name, "not a file of this kind");
  return readFileSync(path);
}

function findSigner(folder: string, sums: Buffer, { keys, unsigned }: VerifyOptions): string | null {
  if (unsigned && !statSync(join(folder, SIGNATURE), { throwIfNoEntry: false })) return null;
  const text = readSmall(folder, SIGNATURE).toString("latin1");
  try {
    return `${IDENTITY} ${fingerprint(verifySignature(sums, text, NAMESPACE, keys).key)}`;
  } catch (error) {
    if (error instanceof BadSignature) throw new Unusable(SIGNATURE, error.message);
    throw error;
  }
}

/**
 * Name → SHA-256. Names are plain: one with a slash would lead out of the folder, and of a name listed twice each
 * reader could choose another line.
 */
function parseSums(bytes: Buffer): Map<string, string> {
  const sums = new Map<string, string>();
  for (const [index, line] of bytes.toString("latin1").replace(/\n$/, "").split("\n").entries()) {
    const refuse = (reason: string): never => {
      throw new Unusable(SUMS, `line ${index + 1} ${reason}`);
    };
    const [, sum = "", name = ""] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? refuse("is not a checksum and a name");
    if (name.includes("/")) refuse(`names "${name}", with a slash`);
    if (!/^\w[\w.+~-]*$/.test(name) || name === SUMS || name === SIGNATURE)
      refuse(`names "${name}", which is no file of a release`);
    if (sums.has(name)) refuse(`names "${name}" for the second time`);
    sums.set(name, sum);
  }
  return sums;
}

async function checkFile(folder: string, name: string, sum: string | undefined): Promise<FileResult> {
  const result = (reason: string | null): FileResult => ({ name, ok: reason === null, reason });
  if (sum === undefined) return result(`not listed in ${SUMS}`);
  const stat = statSync(join(folder, name), { throwIfNoEntry: false });
  if (!stat) return result("missing");
  if (!stat.isFile()) return result("not a file");
  return result((await sha256File(join(folder, name))) === sum ? null : `its hash differs from ${SUMS}`);
}

/** The version that the names of a release contain. */
function versionOf(names: Iterable<string>): string | null {
  for (const name of names) {
    const [, version] = /^keyrack-(\d+\.\d+\.\d+.*?)(?:-linux-\w+\.tar\.gz|-oci\.tar|\.cdx\.json)$/.exec(name) ?? [];
    if (version !== undefined) return version;
  }
  return null;
}

type VerifyOptions = { keys: readonly AllowedSigner[]; unsigned: boolean };

/** Checks a folder completely, or only the files named, which must be in one folder. */
export async function verifyRelease(paths: readonly string[], options: VerifyOptions): Promise<ReleaseReport> {
  const { folder, names } = selectFiles(paths);
  try {
    const bytes = readSmall(folder, SUMS);
    const signer = findSigner(folder, bytes, options);
    const sums = parseSums(bytes);
    const wanted = new Set(names ?? [...sums.keys(), ...readdirSync(folder)]);
    for (const name of [SUMS, SIGNATURE]) wanted.delete(name);
    const files: FileResult[] = [];
    for (const name of [...wanted].toSorted()) files.push(await checkFile(folder, name, sums.get(name)));
    return { ok: files.every(({ ok }) => ok), version: versionOf(sums.keys()), signer, files };
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    const file = { name: error.file, ok: false, reason: error.message };
    return { ok: false, version: null, signer: null, files: [file] };
  }
}
