// The first bytes of a SQLite file, read without opening it as a database: opening one that is not in WAL mode would
// delete its -wal.
import { closeSync, openSync, readSync } from "node:fs";

const MAGIC = "SQLite format 3\0";

function readHeader(file: string): Buffer {
  const header = Buffer.alloc(20);
  const descriptor = openSync(file, "r");
  try {
    return header.subarray(0, readSync(descriptor, header));
  } finally {
    closeSync(descriptor);
  }
}

const hasMagic = (header: Buffer): boolean => header.toString("latin1").startsWith(MAGIC);

export const isSqliteFile = (file: string): boolean => hasMagic(readHeader(file));

/** In WAL mode bytes 18 and 19 are 2. */
export function isInWalMode(file: string): boolean {
  const header = readHeader(file);
  return hasMagic(header) && header[18] === 2 && header[19] === 2;
}
