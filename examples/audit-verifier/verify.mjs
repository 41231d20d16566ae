// Verifies an exported Keyrack audit log. Standalone: needs Node 20 or newer and nothing of Keyrack.
// Implements the format of docs/audit-format.md.
// Without a checkpoint it cannot detect that the newest rows are missing: a truncated chain is valid.
import { createHash, createPublicKey, verify } from "node:crypto";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";

const USAGE = "usage: node verify.mjs EXPORT.jsonl [--checkpoint NOTE_FILE --vkey VERIFIER_KEY]";
const GOOD = 0;
const WRONG_USAGE = 2;
const BROKEN = 4;
const GENESIS = "0".repeat(64);

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

class UsageError extends Error {}

// Canonical JSON, RFC 8785: sorted keys, no spaces; strings and numbers as JavaScript writes them.
function canonical(value) {
  if (typeof value === "string" && !value.isWellFormed()) throw new SyntaxError("lone surrogate");
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = Object.keys(value).toSorted();
  return `{${members.map((key) => `${canonical(key)}:${canonical(value[key])}`).join(",")}}`;
}

function rowHash(row) {
  const { workspace_id, id, seq, occurred_at, actor_type, actor_id, action, target_type, target_id } = row;
  const who = { actor_type, actor_id, action, target_type, target_id };
  const hashed = { v: 1, workspace_id, id, seq, occurred_at, ...who, payload: row.payload, prev_hash: row.prev_hash };
  return sha256("keyrack-audit-v1\n", canonical(hashed)).toString("hex");
}

// RFC 6962, built by appending leaves. `roots` holds the roots of the complete subtrees, the largest first.
function appendLeaf(tree, leaf) {
  let node = sha256(Buffer.of(0), leaf);
  for (let rest = tree.size; rest % 2 === 1; rest = (rest - 1) / 2) node = sha256(Buffer.of(1), tree.roots.pop(), node);
  tree.roots.push(node);
  tree.size++;
}

function rootOf(tree) {
  if (tree.size === 0) return sha256();
  return tree.roots.reduceRight((right, left) => sha256(Buffer.of(1), left, right));
}

function readVkey(text) {
  const [, name, id, base64] = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})$/.exec(text) ?? [];
  const key = Buffer.from(base64 ?? "", "base64");
  if (key.length !== 33 || key[0] !== 1)
    throw new UsageError("the verifier key is not an Ed25519 key of a signed note");
  if (sha256(`${name}\n`, key).toString("hex", 0, 4) !== id) throw new UsageError("the verifier key's id is wrong");
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key.subarray(1)]);
  return { name, id, key: createPublicKey({ key: spki, format: "der", type: "spki" }) };
}

// A checkpoint with a valid signature of its key, or { problem }. Signatures of other keys are ignored.
function readCheckpoint(note, vkey) {
  const border = note.lastIndexOf("\n\n");
  const text = note.slice(0, border + 1);
  const lines = note.slice(border + 2).split("\n");
  if (border < 0 || lines.pop() !== "") return { problem: "it is not a signed note" };
  const ours = [];
  for (const line of lines) {
    const [, name, base64] = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/.exec(line) ?? [];
    if (!name) return { problem: "it is not a signed note" };
    const bytes = Buffer.from(base64, "base64");
    if (name === vkey.name && bytes.toString("hex", 0, 4) === vkey.id) ours.push(bytes.subarray(4));
  }
  if (ours.length === 0) return { problem: "it is not signed by this verifier key" };
  if (!ours.every((signature) => verify(null, Buffer.from(text), vkey.key, signature))) {
    return { problem: "its signature is not valid" };
  }
  const [, origin, size, root] = /^([^\n]+)\n(0|[1-9][0-9]{0,14})\n([A-Za-z0-9+/]{43}=)\n/.exec(text) ?? [];
  const workspace = /\/audit\/([0-9a-f-]{36})$/.exec(origin ?? "")?.[1];
  if (!workspace || origin !== vkey.name) return { problem: "it is not a checkpoint of an audit log of this key" };
  return { workspace, size: Number(size), root };
}

function* linesOf(path) {
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.alloc(1 << 20);
    let rest = Buffer.alloc(0);
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk)) {
      rest = Buffer.concat([rest, chunk.subarray(0, read)]);
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
        yield rest.subarray(0, end);
        rest = rest.subarray(end + 1);
      }
    }
    if (rest.length > 0) yield rest;
  } finally {
    closeSync(file);
  }
}

// Only the order of keys may vary in a line, so its canonical text has the same length. A longer line contains
// something that parsing drops: a repeated key, or a number with more digits than a double holds.
function readRow(bytes) {
  try {
    const line = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const row = JSON.parse(line);
    return typeof row.workspace_id === "string" && canonical(row).length === line.length ? row : null;
  } catch {
    return null;
  }
}

function breakOf(chain, row) {
  if (row.seq !== chain.seq + 1) return "seq_gap";
  if (row.prev_hash !== chain.hash) return "prev_hash_mismatch";
  return rowHash(row) === row.hash ? null : "hash_mismatch";
}

function take(chain, row, line, checkpoint) {
  if (chain.broken) return;
  const reason = breakOf(chain, row);
  if (reason) {
    chain.broken = `at seq ${chain.seq + 1} (line ${line}): ${reason}`;
    return;
  }
  chain.seq = row.seq;
  chain.hash = row.hash;
  if (checkpoint && chain.tree.size < checkpoint.size) appendLeaf(chain.tree, Buffer.from(row.hash, "hex"));
}

function checkpointBreak(chain, { size, root }) {
  if (chain.tree.size < size) {
    return `at seq ${chain.tree.size + 1}: checkpoint_mismatch, ${size} rows were signed and ${chain.tree.size} are good`;
  }
  if (rootOf(chain.tree).toString("base64") === root) return null;
  return `in seq 1 to ${size}: checkpoint_mismatch, these are not the rows that were signed`;
}

function checkFile(path, checkpoint) {
  const chains = new Map();
  const chainOf = (workspace) => {
    const fresh = { seq: 0, hash: GENESIS, broken: null, tree: { size: 0, roots: [] } };
    if (!chains.has(workspace)) chains.set(workspace, fresh);
    return chains.get(workspace);
  };
  if (checkpoint) chainOf(checkpoint.workspace);
  const unreadable = { count: 0, first: 0 };
  let number = 0;
  for (const bytes of linesOf(path)) {
    number++;
    const row = readRow(bytes);
    if (row) take(chainOf(row.workspace_id), row, number, checkpoint?.workspace === row.workspace_id && checkpoint);
    else if (unreadable.count++ === 0) unreadable.first = number;
  }
  return { chains, unreadable };
}

function report({ chains, unreadable }, checkpoint) {
  const { count, first } = unreadable;
  let good = count === 0;
  if (!good) console.log(`file: BROKEN at line ${first}: not an audit row as exported (${count} such lines)`);
  for (const [workspace, chain] of chains) {
    const signed = checkpoint?.workspace === workspace;
    const problems = [chain.broken, signed && checkpointBreak(chain, checkpoint)].filter(Boolean);
    const state = `${chain.seq} rows good, up to hash ${chain.hash}`;
    for (const problem of problems) console.log(`workspace ${workspace}: BROKEN ${problem}; ${state}`);
    if (problems.length > 0) good = false;
    else
      console.log(`workspace ${workspace}: ${state}${signed ? `; extends the checkpoint of ${checkpoint.size}` : ""}`);
  }
  if (chains.size === 0) console.log("no rows");
  if (!checkpoint) console.log("no checkpoint was given: rows missing at the end would not be noticed");
  return good ? GOOD : BROKEN;
}

function main(args) {
  const [path, ...rest] = args;
  const options = new Map();
  for (let i = 0; i < rest.length; i += 2) options.set(rest[i], rest[i + 1]);
  const known = options.has("--checkpoint") && options.has("--vkey") ? 2 : 0;
  if (!path || path.startsWith("-") || options.size !== known || rest.length !== 2 * known) throw new UsageError(USAGE);
  if (known === 0) return report(checkFile(path));
  const vkey = readVkey(options.get("--vkey"));
  const checkpoint = readCheckpoint(readFileSync(options.get("--checkpoint"), "utf8"), vkey);
  if (!checkpoint.problem) return report(checkFile(path, checkpoint), checkpoint);
  console.log(`checkpoint: BROKEN, ${checkpoint.problem}: checkpoint_mismatch`);
  return BROKEN;
}

try {
  process.exitCode = main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError) && !error.syscall) throw error;
  console.error(error.message);
  process.exitCode = WRONG_USAGE;
}
