// Tar archives in memory: reads those inside Debian packages, writes reproducible ones (ustar, entries in a fixed
// order).
export type Entry = {
  /** Without a leading or trailing slash. */
  path: string;
  kind: "file" | "folder" | "symlink";
  mode: number;
  content?: Uint8Array;
  /** Of a symbolic link. */
  target?: string;
  /** Number of the owning user and group; 0 if absent. */
  owner?: number;
};

const BLOCK = 512;
const NAME_MAX = 100;
const KINDS = { file: "0", symlink: "2", folder: "5" } as const;

const padded = (size: number): number => Math.ceil(size / BLOCK) * BLOCK;

/** By path, or if `order` gives something else for each entry, by that first. */
export function writeTar(entries: readonly Entry[], mtime: number, order: (entry: Entry) => string = () => ""): Buffer {
  const sorted = entries.toSorted((a, b) => compare(order(a), order(b)) || compare(a.path, b.path));
  const parts = sorted.flatMap((entry) => {
    const content = entry.content ?? new Uint8Array();
    return [header(entry, content.length, mtime), content, Buffer.alloc(padded(content.length) - content.length)];
  });
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function header({ path, kind, mode, target = "", owner = 0 }: Entry, size: number, mtime: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const { name, prefix } = splitPath(kind === "folder" ? `${path}/` : path);
  if (Buffer.byteLength(target) > NAME_MAX) throw new Error(`the target of ${path} is too long for a tar archive`);
  const octal = (value: number, at: number, length: number): void => {
    block.write(value.toString(8).padStart(length - 1, "0"), at, "latin1");
  };
  block.write(name, 0);
  octal(mode, 100, 8);
  octal(owner, 108, 8);
  octal(owner, 116, 8);
  octal(size, 124, 12);
  octal(mtime, 136, 12);
  block.write(" ".repeat(8), 148, "latin1"); // the checksum counts itself as spaces
  block.write(KINDS[kind], 156, "latin1");
  block.write(target, 157);
  block.write("ustar\u000000", 257, "latin1");
  block.write(prefix, 345);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\u0000 `, 148, "latin1");
  return block;
}

/** A path of more than 100 bytes is stored in two fields, cut at a slash. */
function splitPath(path: string): { name: string; prefix: string } {
  if (Buffer.byteLength(path) <= NAME_MAX) return { name: path, prefix: "" };
  for (let cut = path.indexOf("/"); cut >= 0; cut = path.indexOf("/", cut + 1)) {
    const [prefix, name] = [path.slice(0, cut), path.slice(cut + 1)];
    if (name !== "" && Buffer.byteLength(name) <= NAME_MAX && Buffer.byteLength(prefix) <= 155) return { name, prefix };
  }
  throw new Error(`${path} is too long for a tar archive`);
}

/** Adds the folders above each entry. Two entries with one path are a mistake. */
export function withFolders(entries: readonly Entry[]): Entry[] {
  const all = new Map<string, Entry>();
  for (const entry of entries) {
    if (all.has(entry.path)) throw new Error(`${entry.path} is there twice`);
    all.set(entry.path, entry);
  }
  for (const { path } of entries)
    for (let cut = path.lastIndexOf("/"); cut > 0; cut = path.lastIndexOf("/", cut - 1)) {
      const folder = path.slice(0, cut);
      if (!all.has(folder)) all.set(folder, { path: folder, kind: "folder", mode: 0o755 });
    }
  return [...all.values()];
}

/** The files, folders and symbolic links of an archive. A hard link becomes a file of its own. */
export function readTar(archive: Buffer): Entry[] {
  const entries: Entry[] = [];
  const files = new Map<string, Uint8Array>();
  let longName: string | undefined;
  for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0; ) {
    const block = archive.subarray(at, at + BLOCK);
    const size = Number.parseInt(textAt(block, 124, 12), 8);
    const content = archive.subarray(at + BLOCK, at + BLOCK + size);
    at += BLOCK + padded(size);
    const kind = textAt(block, 156, 1);
    if (kind === "L") {
      longName = textAt(content, 0, size); // GNU's way to name the next entry
      continue;
    }
    const prefix = textAt(block, 257, 6) === "ustar" ? textAt(block, 345, 155) : "";
    const path = trimPath(longName ?? `${prefix}/${textAt(block, 0, NAME_MAX)}`);
    longName = undefined;
    const mode = Number.parseInt(textAt(block, 100, 8), 8) & 0o7777;
    const owner = Number.parseInt(textAt(block, 108, 8), 8);
    const target = textAt(block, 157, NAME_MAX);
    if (path === "") continue; // the root itself
    if (kind === "5") entries.push({ path, kind: "folder", mode, owner });
    else if (kind === "2") entries.push({ path, kind: "symlink", mode, owner, target });
    else if (kind === "0" || kind === "" || kind === "1") {
      const bytes = kind === "1" ? files.get(trimPath(target)) : content;
      if (!bytes) throw new Error(`${path} is a link to ${target}, which is not before it`);
      files.set(path, bytes);
      entries.push({ path, kind: "file", mode, owner, content: bytes });
    } else throw new Error(`${path} has the unsupported type ${kind}`);
  }
  return entries;
}

function textAt(block: Uint8Array, at: number, length: number): string {
  const field = Buffer.from(block.subarray(at, at + length));
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end).trim();
}

const trimPath = (path: string): string => path.replace(/^(?:\.?\/)+|^\.$|\/+$/g, "");
