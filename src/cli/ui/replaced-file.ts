// A file that a command writes from its beginning. What it held stays until the first byte is there: a request that
// fails must not cost an earlier export.
import { closeSync, fstatSync, ftruncateSync, openSync, writeFileSync } from "node:fs";
import { fileError } from "./output.ts";

export type ReplacedFile = {
  append(bytes: Buffer): void;
  /** Call it after the last byte, also where there was none. */
  finish(): void;
  close(): void;
};

/** Readable by the owner only. */
export function openReplaced(file: string): ReplacedFile {
  let fd: number;
  try {
    fd = openSync(file, "a", 0o600);
  } catch (error) {
    throw fileError("write", file, error);
  }
  let isEmptied = !fstatSync(fd).isFile(); // a pipe or a device
  const finish = (): void => {
    if (!isEmptied) ftruncateSync(fd);
    isEmptied = true;
  };
  return {
    append(bytes) {
      finish();
      writeFileSync(fd, bytes);
    },
    finish,
    close: () => closeSync(fd),
  };
}
