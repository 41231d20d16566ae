// Signed checkpoints of the audit chains (docs/audit-format.md): they reveal that the newest rows were removed.
// Caution: never sign a smaller or different tree after a larger one, whatever the database contains.
import { fromBase64, fromHex, toBase64, utf8 } from "../../kernel/crypto/bytes.ts";
import { GENESIS_HASH, type ChainHead } from "../../kernel/audit/chain.ts";
import { MerkleTree } from "../../kernel/crypto/merkle.ts";
import {
  formatCheckpoint,
  formatNote,
  computeKeyId,
  formatVkey,
  type Checkpoint,
} from "../../kernel/crypto/signed-note.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { hashesBetween, headOf } from "../../store/queries/audit.ts";
import { chainsDueForCheckpoint, newestCheckpoint, storeCheckpoint } from "../../store/queries/checkpoints.ts";
import { claimFactOnce } from "../core/facts.ts";
import type { AuditCheckpointRow } from "../../store/schema/tables.ts";
import { openStoredCheckpoint, type ExpectedCheckpoint } from "../../store/audit/verify.ts";
import { appendCheckpoint } from "./checkpoint-files.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { loadCheckpointSigner } from "../vault/signing-keys.ts";
import { sha256Bytes } from "../../platform/crypto.ts";

const PAGE = 1_000;

export type SignedCheckpoint = { size: number; note: string; vkey: string };

/** The chain in the database does not extend the signed one. Nothing is signed until an operator has resolved it. */
export class BrokenChain extends Error {}

/**
 * `<host>/audit/<workspace_id>`. The host is fixed at first use, so that a renamed server extends its old checkpoints.
 */
export async function checkpointOrigin(services: Services, workspace_id: string): Promise<string> {
  return `${await originHost(services)}/audit/${workspace_id}`;
}

function originHost(services: Services): Promise<string> {
  const { public_url, host } = services.settings;
  return claimFactOnce(services, "audit_origin_host", () => (public_url ? new URL(public_url).hostname : host));
}

/** The newest checkpoint, and the end of its chain. `signed`: what it says, if it was signed by our key. */
async function readNewest(services: Services, workspace_id: string) {
  const { read } = services.store;
  const signer = await loadCheckpointSigner(services);
  const origin = await checkpointOrigin(services, workspace_id);
  // Read the checkpoint before the head: another process may add both in between.
  const newest = await newestCheckpoint.first(read, { workspace_id });
  const head = (await headOf.first(read, { workspace_id })) ?? { seq: 0, hash: GENESIS_HASH };
  const signed = newest ? openStoredCheckpoint(newest, origin, signer.publicKey) : null;
  return { signer, origin, newest, signed, head };
}

/** Signs the current chain and stores the note. */
export async function createCheckpoint(services: Services, workspace_id: string): Promise<SignedCheckpoint> {
  const { signer, origin, newest, signed, head } = await readNewest(services, workspace_id);
  if (newest && newest.seq > head.seq)
    throw new BrokenChain(`the chain has ${head.seq} rows, but ${newest.seq} were signed`);
  const tree = await growTree(services, workspace_id, head, restoreTree(newest, signed), signed);
  const text = formatCheckpoint(origin, tree.size, tree.root());
  const note = formatNote(text, origin, computeKeyId(origin, signer.publicKey, sha256Bytes), signer.sign(utf8(text)));
  await saveCheckpoint(services, workspace_id, note, head, tree);
  return { size: tree.size, note, vkey: formatVkey(origin, signer.publicKey, sha256Bytes) };
}

/** The tree of the newest checkpoint, so that only new rows are read; empty if its frontier is not the signed one. */
function restoreTree(newest: AuditCheckpointRow | undefined, signed: Checkpoint | null): MerkleTree {
  if (newest && signed) {
    try {
      const frontier = (JSON.parse(newest.frontier) as string[]).map((root) => fromBase64(root));
      const tree = new MerkleTree(sha256Bytes, { size: newest.seq, frontier });
      if (toBase64(tree.root()) === toBase64(signed.root)) return tree;
    } catch {
      // Malformed frontier: rebuild from the first row.
    }
  }
  return new MerkleTree(sha256Bytes);
}

async function growTree(
  services: Services,
  workspace_id: string,
  head: ChainHead,
  tree: MerkleTree,
  signed: Checkpoint | null,
): Promise<MerkleTree> {
  let hash = head.hash;
  while (tree.size < head.seq) {
    const rows = await hashesBetween.all(services.store.read, {
      workspace_id,
      after: tree.size,
      upTo: head.seq,
      limit: PAGE,
    });
    for (const row of rows) {
      if (row.seq !== tree.size + 1) break;
      tree.append(fromHex(row.hash));
      hash = row.hash;
      if (tree.size === signed?.size && toBase64(tree.root()) !== toBase64(signed.root))
        throw new BrokenChain(`the first ${tree.size} rows are not those that were signed`);
    }
    if (rows.at(-1)?.seq !== tree.size) throw new BrokenChain(`row ${tree.size + 1} is missing`);
    await yieldToEventLoop(); // yield: the first checkpoint of a long chain must not block requests
  }
  if (hash !== head.hash) throw new BrokenChain(`row ${head.seq} is not the head`);
  return tree;
}

async function saveCheckpoint(
  services: Services,
  workspace_id: string,
  note: string,
  head: ChainHead,
  tree: MerkleTree,
): Promise<void> {
  const frontier = JSON.stringify(tree.frontier().map((root) => toBase64(root)));
  const row = { workspace_id, seq: tree.size, note, frontier, created_at: services.clock.now() };
  // Once this commit is durable, so is everything read before it: the log is written in order.
  const stored = await record(services, (tx) => storeCheckpoint.run(tx, row));
  if (stored === 0) return;
  await appendCheckpoint(services, workspace_id, note);
  // Logs are often shipped elsewhere: with the note, they are copies that prove truncation and rewriting.
  services.log.info("audit_checkpoint", { workspace_id, head_seq: head.seq, head_hash: head.hash, note });
}

/** The newest note; creates one if the chain has grown since. */
export async function latestCheckpoint(services: Services, workspace_id: string): Promise<SignedCheckpoint> {
  const { signer, origin, newest, signed, head } = await readNewest(services, workspace_id);
  // If the chain is shorter than the signed one, rows were removed: return the note as evidence.
  if (newest && signed && signed.size >= head.seq) {
    await services.store.durable();
    return { size: signed.size, note: newest.note, vkey: formatVkey(origin, signer.publicKey, sha256Bytes) };
  }
  return createCheckpoint(services, workspace_id);
}

/** Scheduled job: signs every chain with at least `rows` rows after its newest checkpoint. */
export async function runCheckpoints(services: Services, { rows = 1 }: { rows?: number } = {}): Promise<number> {
  let created = 0;
  for (const { workspace_id } of await chainsDueForCheckpoint.all(services.store.read, { rows })) {
    try {
      await createCheckpoint(services, workspace_id);
      created++;
    } catch (error) {
      services.log.error("audit_checkpoint_failed", { workspace_id, error: (error as Error).message });
    }
  }
  return created;
}

/** What the newest checkpoint requires of the chain. With a null root, for a note we did not sign, no chain passes. */
export async function expectedByCheckpoint(services: Services, workspace_id: string): Promise<ExpectedCheckpoint[]> {
  const newest = await newestCheckpoint.first(services.store.read, { workspace_id });
  if (!newest) return [];
  const origin = await checkpointOrigin(services, workspace_id);
  const { publicKey } = await loadCheckpointSigner(services);
  const signed = openStoredCheckpoint(newest, origin, publicKey);
  return [{ size: newest.seq, root: signed ? toBase64(signed.root) : null }];
}
