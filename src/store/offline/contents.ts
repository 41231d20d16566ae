// What a database holds, in figures: schema, rows of every table, the ends of the audit chains. A manifest keeps this and
// a restored copy is held against it; read inside one transaction it is one moment of a database in use.
import { toBase64 } from "../../kernel/crypto/bytes.ts";
import { computeKeyId, openNote, parseCheckpoint } from "../../kernel/crypto/signed-note.ts";
import { readAppliedMigrations, readCheckpointKey, newestCheckpoint, type StoredCheckpoint } from "./audit-chains.ts";
import type { Source } from "./source.ts";
import type { ExpectedCheckpoint } from "./verify-pool.ts";
import { sha256Bytes, verifyEd25519 } from "../../platform/crypto.ts";

export type AuditHeadAt = { workspace_id: string; seq: number; hash: string };

export type Contents = {
  schema_version: number;
  /** The master key this database was set up with, recognised by this and not derivable from it. */
  master_key_fingerprint: string | null;
  rows: Record<string, number>;
  audit_heads: AuditHeadAt[];
  checkpoints: StoredCheckpoint[];
};

/** Every table of ours, by name. */
export async function listTables(source: Source): Promise<string[]> {
  const rows = await source.all<{ name: string }>(
    source.kind === "sqlite"
      ? "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"
      : `select table_name::text as name from information_schema.tables
          where table_schema = current_schema() and table_type = 'BASE TABLE' order by table_name::text collate "C"`,
    [],
  );
  return rows.map(({ name }) => name);
}

export async function readContents(source: Source): Promise<Contents> {
  const rows: Record<string, number> = {};
  for (const name of await listTables(source)) {
    const [count] = await source.all<{ n: number }>(`select count(*) as n from "${name}"`, []);
    rows[name] = count?.n ?? 0;
  }
  const past = await readAppliedMigrations(source);
  const [key] = await source.all<{ value: string }>("select value from deployment where name = $1", [
    "master_key_fingerprint",
  ]);
  const audit_heads = await source.all<AuditHeadAt>(
    "select workspace_id, seq, hash from audit_heads order by workspace_id",
    [],
  );
  const checkpoints: StoredCheckpoint[] = [];
  for (const { workspace_id } of audit_heads) {
    const note = await newestCheckpoint(source, workspace_id);
    if (note) checkpoints.push(note);
  }
  return {
    schema_version: past.at(-1)?.version ?? 0,
    master_key_fingerprint: key?.value ?? null,
    rows,
    audit_heads,
    checkpoints,
  };
}

/** In which figures a database differs from what was written down of it. */
export function contentDifferences(wanted: Contents, found: Contents): string[] {
  const out: string[] = [];
  if (wanted.schema_version !== found.schema_version)
    out.push(`schema ${found.schema_version} where the manifest says ${wanted.schema_version}`);
  for (const name of new Set([...Object.keys(wanted.rows), ...Object.keys(found.rows)])) {
    const [want, have] = [wanted.rows[name] ?? 0, found.rows[name] ?? 0];
    if (want !== have) out.push(`${have} rows in ${name} where the manifest says ${want}`);
  }
  const heads = new Map(found.audit_heads.map(({ workspace_id, seq, hash }) => [workspace_id, `${seq} ${hash}`]));
  for (const { workspace_id, seq, hash } of wanted.audit_heads)
    if (heads.get(workspace_id) !== `${seq} ${hash}`)
      out.push(`audit chain ${workspace_id} does not end where the manifest says`);
  return out;
}

/** What the newest checkpoint of a chain lets a verifier expect. One that this database's key did not sign is met by none. */
export async function expectedCheckpoints(source: Source, workspace_id: string): Promise<ExpectedCheckpoint[]> {
  const stored = await newestCheckpoint(source, workspace_id);
  const signer = stored && (await readCheckpointKey(source));
  if (!stored || !signer) return [];
  const name = `${signer.host}/audit/${workspace_id}`;
  const publicKey = Buffer.from(signer.public_key, "base64url");
  const text = openNote(
    stored.note,
    { name, keyId: computeKeyId(name, publicKey, sha256Bytes), publicKey },
    verifyEd25519,
  );
  const said = text === null ? null : parseCheckpoint(text);
  const good = said && said.origin === name && said.size === stored.seq;
  return [{ size: stored.seq, root: good ? toBase64(said.root) : null }];
}
