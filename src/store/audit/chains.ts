// Offline reads of the audit chains: their list, newest checkpoints and rows.
import type { AuditLogRow } from "../schema/tables.ts";
import type { Source } from "../offline/source.ts";

type ChainRow = { workspace_id: string; name: string | null };
export type StoredCheckpoint = { workspace_id: string; seq: number; note: string };

/** Every chain, including the deployment's. */
export function listChains(source: Source): Promise<ChainRow[]> {
  return source.all<ChainRow>(
    `select chains.workspace_id, workspaces.name
       from (select workspace_id from audit_heads union select workspace_id from audit_log) as chains
       left join workspaces on workspaces.id = chains.workspace_id
      order by chains.workspace_id`,
    [],
  );
}

export async function newestCheckpoint(source: Source, workspace_id: string): Promise<StoredCheckpoint | undefined> {
  const [row] = await source.all<StoredCheckpoint>(
    "select workspace_id, seq, note from audit_checkpoints where workspace_id = $1 order by seq desc limit 1",
    [workspace_id],
  );
  return row;
}

/** The public key that signs checkpoints (base64url), and the host in their origin. */
export async function readCheckpointKey(source: Source): Promise<{ public_key: string; host: string } | undefined> {
  const [row] = await source.all<{ public_key: string; host: string }>(
    `select signing_keys.public_key, host.value as host
       from deployment as key
       join signing_keys on signing_keys.id = key.value or signing_keys.kid = key.value
       join deployment as host on host.name = 'audit_origin_host'
      where key.name = 'checkpoint_key_id'`,
    [],
  );
  return row;
}

export function readChainRows(
  source: Source,
  workspace_id: string,
  after: number,
  limit: number,
): Promise<AuditLogRow[]> {
  return source.all<AuditLogRow>("select * from audit_log where workspace_id = $1 and seq > $2 order by seq limit $3", [
    workspace_id,
    after,
    limit,
  ]);
}
