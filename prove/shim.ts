// The TypeScript side of shim.c: compiles it, reconstructs a disk after a power cut from its recording, and controls
// its fault injection.
import { execFileSync } from "node:child_process";
import { closeSync, openSync, readFileSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Random } from "../harness/random.ts";

const SOURCE = fileURLToPath(new URL("./shim.c", import.meta.url));
const HEAD_BYTES = 20;
const SECTOR = 512;

export const NO_COMPILER = "no C compiler (gcc) is installed, so nothing can stand between the process and its files";

/** Compiles the shim into the folder; null when there is no compiler. */
export function buildShim(dir: string): string | null {
  const file = join(dir, "shim.so");
  try {
    execFileSync("gcc", ["-shared", "-fPIC", "-O1", "-o", file, SOURCE, "-ldl", "-lpthread"], { stdio: "pipe" });
    return file;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

type Op = { kind: "write"; offset: number; data: Buffer } | { kind: "truncate"; length: number } | { kind: "remove" };
type Recorded = Op & { n: number };

/** A file as synced, and the writes since. */
class DiskFile {
  bytes: Buffer;
  #length: number;
  pending: Recorded[] = [];
  readonly #syncing = new Map<number, number>();

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.#length = bytes.length;
  }

  begin(sync: number, n: number): void {
    this.#syncing.set(sync, n);
  }

  end(sync: number): void {
    const upTo = this.#syncing.get(sync) ?? -1;
    for (const op of this.pending.filter(({ n }) => n < upTo)) this.apply(op);
    this.pending = this.pending.filter(({ n }) => n >= upTo);
  }

  apply(op: Op): void {
    if (op.kind === "remove") this.#length = 0;
    else if (op.kind === "truncate") this.#resize(op.length);
    else {
      if (op.offset + op.data.length > this.#length) this.#resize(op.offset + op.data.length);
      op.data.copy(this.bytes, op.offset);
    }
  }

  #resize(length: number): void {
    if (length > this.bytes.length) {
      const bigger = Buffer.alloc(Math.max(length, this.bytes.length * 2));
      this.bytes.copy(bigger, 0, 0, this.#length);
      this.bytes = bigger;
    } else if (length > this.#length) this.bytes.fill(0, this.#length, length);
    this.#length = length;
  }

  get content(): Buffer {
    return this.bytes.subarray(0, this.#length);
  }
}

/** Files as they were when the recording began. */
type Image = Map<string, Buffer>;

export function readImage(paths: readonly string[]): Image {
  const image: Image = new Map();
  for (const path of paths) {
    try {
      image.set(path, readFileSync(path));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return image;
}

function replay(image: Image, log: Buffer): Map<string, DiskFile> {
  const files = new Map([...image].map(([path, bytes]) => [path, new DiskFile(Buffer.from(bytes))]));
  const names: string[] = [];
  let n = 0;
  for (let at = 0; at + HEAD_BYTES <= log.length; ) {
    const [op, index] = [log.readUInt32LE(at), log.readUInt32LE(at + 4)];
    const [offset, length] = [Number(log.readBigUInt64LE(at + 8)), log.readUInt32LE(at + 16)];
    const data = log.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length);
    if (data.length < length) break; // killed while recording this entry
    at += HEAD_BYTES + length;
    if (op === 6) names[index] = data.toString();
    const path = names[index] ?? "";
    if (!files.has(path)) files.set(path, new DiskFile(Buffer.alloc(0)));
    const file = files.get(path) as DiskFile;
    if (op === 1) file.pending.push({ n: n++, kind: "write", offset, data });
    else if (op === 2) file.pending.push({ n: n++, kind: "truncate", length: offset });
    else if (op === 3) file.begin(offset, n);
    else if (op === 4) file.end(offset);
    else if (op === 5) file.pending.push({ n: n++, kind: "remove" });
  }
  return files;
}

/** Of unsynced writes a disk may keep none, the first ones, or any subset; a write may lack its last sectors. */
function keepSome(pending: readonly Op[], random: Random): Op[] {
  const how = random.pick(["none", "none", "beginning", "any"] as const);
  if (how === "none") return [];
  if (how === "beginning") return pending.slice(0, random.int(0, pending.length));
  return pending.flatMap((op) => {
    const luck = random.int(0, 3);
    if (luck === 0) return [];
    if (luck > 1 || op.kind !== "write") return [op];
    const sectors = random.int(0, Math.floor(op.data.length / SECTOR));
    return [{ ...op, data: op.data.subarray(0, sectors * SECTOR) }];
  });
}

/** Writes the files as they would be after a power cut. Returns the number of lost writes. */
export function cutPower(image: Image, logFile: string, random: Random): number {
  let forgotten = 0;
  for (const [path, file] of replay(image, readFileSync(logFile))) {
    const kept = keepSome(file.pending, random);
    forgotten += file.pending.length - kept.length;
    for (const op of kept) file.apply(op);
    writeFileSync(path, file.content);
  }
  for (const path of image.keys()) if (path.endsWith(".db")) rmSync(`${path}-shm`, { force: true });
  rmSync(logFile);
  return forgotten;
}

export type Fault = { op: "write" | "sync"; k: number; forever: boolean; errno: "EIO" | "ENOSPC" };
const ERRNO = { EIO: 5, ENOSPC: 28 } as const;

/** Sets the fault that a running shim injects, and reads how often it did. */
export class FaultControl {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
    writeFileSync(file, "");
    this.#write([0, 0, 0, 0, 0, 0]);
  }

  arm({ op, k, forever, errno }: Fault): void {
    this.#write([0, k, forever ? 1 : 0, ERRNO[errno], 0, 0]);
    this.#write([op === "write" ? 1 : 2]); // last: this arms the fault
  }

  disarm(): { failed: number; seen: number } {
    this.#write([0]);
    const [, , , , failed = 0, seen = 0] = this.#read();
    return { failed, seen };
  }

  #write(values: readonly number[]): void {
    const bytes = Buffer.alloc(values.length * 8);
    for (const [i, value] of values.entries()) bytes.writeBigInt64LE(BigInt(value), i * 8);
    const fd = openSync(this.file, "r+");
    writeSync(fd, bytes, 0, bytes.length, 0);
    closeSync(fd);
  }

  #read(): number[] {
    const bytes = Buffer.alloc(48);
    const fd = openSync(this.file, "r");
    readSync(fd, bytes, 0, 48, 0);
    closeSync(fd);
    return Array.from({ length: 6 }, (_, i) => Number(bytes.readBigInt64LE(i * 8)));
  }
}
