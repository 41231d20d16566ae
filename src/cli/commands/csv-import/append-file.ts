// A file of new keys, or of progress, that a command appends to: mode 0600, synced line by line.
// Caution: its name is often derived from the input's, in a folder where others may write. Someone else's file, or a
// link to one of ours, could wait there: it is refused before anything about it is changed. What is checked is the open
// descriptor, so that the file cannot be exchanged after the check. A flag may also name a pipe, a device, or a file
// that the shell has opened (`--out /dev/stdout >> FILE`): the shell's choice is not checked.
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
  type Stats,
} from "node:fs";
import { codeOf } from "../../../platform/errors.ts";
import { appendDurably } from "../../../platform/fsync.ts";
import { ExitError, fileError } from "../../ui/output.ts";
import { inheritedFile } from "./inherited.ts";

type AppendFile = { lines: string[]; append(line: string): void; close(): void };

/** `named`: by a flag, so that it may be a device, a pipe or a link of the user's own. */
type Origin = "named" | "derived";

/** A line could not be written: no row may be created whose key would be lost. */
export class AppendError extends ExitError {}

const FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT;
/** For a pipe: a process that can also read it would not notice that its reader has left. */
const FLAGS_UNREADABLE = constants.O_WRONLY | constants.O_APPEND;
const LINE_FEED = 10;

/** Why a file is refused, and what to do where a flag names it. */
const ADVICE = {
  "is a link": "Name the file that it leads to.",
  "is a socket": "Name a file, or pipe the output: --out /dev/stdout | cat",
  "is not a file": "Name a file.",
  "has a second name": "Name another file.",
  "belongs to another user":
    "Name another file. If you trust its owner, let your shell open it: --out /dev/stdout >> FILE",
} as const;

/** Opens a file for appending, readable by the owner only. Drops an incomplete last line. */
export function openAppend(file: string, origin: Origin): AppendFile {
  const inherited = origin === "named" ? inheritedFile(file) : null;
  const handle = inherited ?? open(file, origin);
  const close = (): void => {
    if (inherited === null) closeSync(handle);
  };
  try {
    const lines = inherited === null ? prepare(handle) : prepareInherited(file, handle);
    return { lines, append: (line) => append(file, handle, line), close };
  } catch (error) {
    close();
    throw fileError("write", file, error);
  }
}

function append(file: string, handle: number, line: string): void {
  try {
    appendDurably(handle, line);
  } catch (error) {
    throw new AppendError(`Cannot write ${file}: ${codeOf(error)}.`, 1);
  }
}

function prepare(handle: number): string[] {
  if (!fstatSync(handle).isFile()) return []; // nothing to read in a device or a pipe, nor to restrict
  fchmodSync(handle, 0o600);
  const { lines, length, isComplete } = splitLines(readFileSync(handle));
  if (!isComplete) ftruncateSync(handle, length);
  return lines;
}

/** Ends an incomplete last line: to cut it off would leave a gap, because the shell's descriptor keeps its position. */
function prepareInherited(file: string, handle: number): string[] {
  try {
    fchmodSync(handle, 0o600);
  } catch (error) {
    if (codeOf(error) !== "EPERM") throw error; // a file of another user, who chose its mode
  }
  const { lines, isComplete } = splitLines(readFileSync(file)); // by its name: the descriptor only writes
  if (!isComplete) appendDurably(handle, "\n");
  return lines;
}

function splitLines(bytes: Buffer): { lines: string[]; length: number; isComplete: boolean } {
  const length = bytes.lastIndexOf(LINE_FEED) + 1;
  const lines = bytes.toString("utf8", 0, length).split("\n").slice(0, -1);
  return { lines, length, isComplete: length === bytes.length };
}

function open(file: string, origin: Origin): number {
  try {
    // A new file is ours, also on a file system that gives every file to another user.
    return openSync(file, FLAGS | constants.O_EXCL, 0o600);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw fileError("write", file, error);
  }
  let handle: number;
  try {
    handle = openSync(file, flagsFor(file, origin), 0o600);
  } catch (error) {
    if (codeOf(error) === "ELOOP") throw refused(file, "is a link", origin);
    throw codeOf(error) === "ENXIO" ? refused(file, "is a socket", origin) : fileError("write", file, error);
  }
  const problem = problemOf(fstatSync(handle), origin);
  if (problem === null) return handle;
  closeSync(handle);
  throw refused(file, problem, origin);
}

function flagsFor(file: string, origin: Origin): number {
  if (origin === "derived") return FLAGS | constants.O_NOFOLLOW;
  const target = statSync(file, { throwIfNoEntry: false });
  const flags = target === undefined || target.isFile() ? FLAGS : FLAGS_UNREADABLE;
  return isOwnLink(file) ? flags : flags | constants.O_NOFOLLOW;
}

/** /dev/stdout is a link of root's. */
function isOwnLink(file: string): boolean {
  const link = lstatSync(file, { throwIfNoEntry: false });
  return link?.isSymbolicLink() === true && (link.uid === 0 || link.uid === process.geteuid?.());
}

function problemOf(stats: Stats, origin: Origin): keyof typeof ADVICE | null {
  if (!stats.isFile()) return origin === "named" ? null : "is not a file";
  if (process.geteuid !== undefined && stats.uid !== process.geteuid()) return "belongs to another user";
  return stats.nlink > 1 ? "has a second name" : null;
}

function refused(file: string, problem: keyof typeof ADVICE, origin: Origin): ExitError {
  const advice = origin === "named" ? ADVICE[problem] : "Remove it, or use a folder that only you can write.";
  return new ExitError(`Cannot write ${file}: it ${problem}. ${advice}`, 2);
}
