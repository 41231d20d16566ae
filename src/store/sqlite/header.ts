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

/** Where two bytes are 2 in WAL mode, and else 1. */
export const WAL_MODE_AT = 18;

export function isInWalMode(file: string): boolean {
  const header = readHeader(file);
  return hasMagic(header) && header[WAL_MODE_AT] === 2 && header[WAL_MODE_AT + 1] === 2;
}
