// Summarises a database: schema version, row counts, heads of the audit chains. A backup's manifest stores this, and a
// restored copy is compared with it. Read it inside a transaction when the database is in use.
import { toBase64 } from "../../kernel/crypto/bytes.ts";
import type { Fact } from "../schema/tables.ts";
import { newestCheckpoint, readCheckpointKey, type StoredCheckpoint } from "../audit/chains.ts";
import { readAppliedMigrations } from "../schema/applied.ts";
import { allIfKnown, type Source } from "./source.ts";
import { openStoredCheckpoint, type ExpectedCheckpoint } from "../audit/verify.ts";

export type ChainHeadAt = { workspace_id: string; seq: number; hash: string };

export type Contents = {
  schema_version: number;
  /** Identifies the master key; the key cannot be derived from it. */
  master_key_fingerprint: string | null;
  /** Whose database it is (backup/owner.ts); absent from manifests of earlier versions. */
  deployment_id?: string | null;
  rows: Record<string, number>;
  audit_heads: ChainHeadAt[];
  checkpoints: StoredCheckpoint[];
};

/** The names of all tables, sorted. */
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

/** One of the deployment's facts, without a server. */
export async function readFactOf(source: Source, name: Fact): Promise<string | null> {
  const [row] = await allIfKnown<{ value: string }>(source, "select value from deployment where name = $1", [name]);
  return row?.value ?? null;
}

/** Null for a database that this version has not backed up yet. */
export const readDeploymentId = (source: Source): Promise<string | null> => readFactOf(source, "deployment_id");

export async function readContents(source: Source): Promise<Contents> {
  const rows: Record<string, number> = {};
  for (const name of await listTables(source)) {
    const [count] = await source.all<{ n: number }>(`select count(*) as n from "${name}"`, []);
    rows[name] = count?.n ?? 0;
  }
  const applied = await readAppliedMigrations(source);
  const audit_heads = await source.all<ChainHeadAt>(
    "select workspace_id, seq, hash from audit_heads order by workspace_id",
    [],
  );
  const checkpoints: StoredCheckpoint[] = [];
  for (const { workspace_id } of audit_heads) {
    const note = await newestCheckpoint(source, workspace_id);
    if (note) checkpoints.push(note);
  }
  return {
    schema_version: applied.at(-1)?.version ?? 0,
    master_key_fingerprint: await readFactOf(source, "master_key_fingerprint"),
    deployment_id: await readDeploymentId(source),
    rows,
    audit_heads,
    checkpoints,
  };
}

/** Describes where a database differs from its manifest. */
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

/**
 * What a verifier must find at the newest checkpoint of a chain. A checkpoint with an invalid signature never matches.
 */
export async function expectedCheckpoints(source: Source, workspace_id: string): Promise<ExpectedCheckpoint[]> {
  const stored = await newestCheckpoint(source, workspace_id);
  const signer = stored && (await readCheckpointKey(source));
  if (!stored || !signer) return [];
  const publicKey = Buffer.from(signer.public_key, "base64url");
  const signed = openStoredCheckpoint(stored, `${signer.host}/audit/${workspace_id}`, publicKey);
  return [{ size: stored.seq, root: signed ? toBase64(signed.root) : null }];
}
