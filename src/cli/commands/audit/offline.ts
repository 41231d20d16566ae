// The audit log read directly from the database, with or without a running server: no lock and no credential needed.
import { dirname, resolve } from "node:path";
import type { Settings } from "../../../config/settings.ts";
import { NIL_WORKSPACE } from "../../../kernel/audit/chain.ts";
import { formatVkey } from "../../../kernel/crypto/signed-note.ts";
import { formatTimestamp } from "../../../kernel/timestamps.ts";
import { preferNativeFolders } from "../../../platform/native-addons.ts";
import { readChainRows, readCheckpointKey, listChains } from "../../../store/audit/chains.ts";
import { ChainVerifications } from "../../../store/audit/chain-verifications.ts";
import { expectedCheckpoints } from "../../../store/offline/contents.ts";
import { hasSchema } from "../../../store/schema/applied.ts";
import { describeTarget, type DatabaseTarget } from "../../../store/target.ts";
import { openSource, type Source } from "../../../store/offline/source.ts";
import type { AuditLogRow } from "../../../store/schema/tables.ts";
import type { Checkpoints, ChainVerdict } from "./verify-rows.ts";
import { operatorSettings, type OperatorOptions } from "../../operator.ts";
import { ExitError } from "../../ui/output.ts";
import { sha256Bytes } from "../../../platform/crypto.ts";

const PAGE = 1_000;

export type OfflineOptions = OperatorOptions & { workspaceId?: string; deployment?: true };

export async function databaseOf(settings: Settings): Promise<DatabaseTarget> {
  const { databaseTarget, requireDatabase, requireDatabaseFile } = await import("../../../server/data-dir.ts");
  const dir = resolve(settings.data_dir);
  preferNativeFolders([settings.cache_dir, dir]);
  const target = databaseTarget(settings, dir);
  if (target.kind === "sqlite") {
    requireDatabase(target.file);
    requireDatabaseFile(dir, target.file);
  }
  return target;
}

/** As `withSource`. An unreachable database is exit 3. */
export async function withOfflineSource<T>(target: DatabaseTarget, work: (source: Source) => Promise<T>): Promise<T> {
  const { toStartRefused } = await import("../../../server/start-refused.ts");
  const place = target.kind === "sqlite" ? dirname(target.file) : "";
  let source: Source;
  try {
    source = await openSource(target);
  } catch (error) {
    const refused = toStartRefused(error, place);
    throw refused instanceof ExitError ? refused : new ExitError((error as Error).message, 3);
  }
  try {
    if (!(await hasSchema(source)))
      throw new ExitError(`There is no Keyrack database at ${describeTarget(target)}.`, 2);
    return await work(source);
  } catch (error) {
    throw toStartRefused(error, place);
  } finally {
    await source.close();
  }
}

const selectedChain = (options: OfflineOptions): string | undefined =>
  options.deployment ? NIL_WORKSPACE : options.workspaceId;

function requireChain(chains: readonly string[], wanted: string): void {
  if (!chains.includes(wanted)) throw new ExitError(`There is no audit chain ${wanted}.`, 2);
}

/** The verifier key of a chain, from the checkpoint key in this database. */
export async function storedVkey(source: Source, workspace_id: string): Promise<string | undefined> {
  const key = await readCheckpointKey(source);
  const publicKey = key && Buffer.from(key.public_key, "base64url");
  return key && publicKey ? formatVkey(`${key.host}/audit/${workspace_id}`, publicKey, sha256Bytes) : undefined;
}

export async function verifyOffline(
  options: OfflineOptions,
  loadCheckpoints: (source: Source) => Promise<Checkpoints | undefined>,
): Promise<ChainVerdict[]> {
  const target = await databaseOf(operatorSettings(options));
  return withOfflineSource(target, async (source) => {
    const given = await loadCheckpoints(source);
    const wanted = selectedChain(options);
    const chains = (await listChains(source)).map(({ workspace_id }) => workspace_id);
    if (wanted) requireChain(chains, wanted);
    const verifier = new ChainVerifications(target, new AbortController().signal);
    const verdicts: ChainVerdict[] = [];
    for (const workspace_id of wanted ? [wanted] : new Set([...chains, ...(given ? [given.workspace_id] : [])])) {
      const saved = given?.workspace_id === workspace_id ? given.expected : [];
      const expected = [...(await expectedCheckpoints(source, workspace_id)), ...saved];
      const { checked, head_hash, broken_seq, reason } = await verifier.check(workspace_id, expected);
      const checkpoint_size = saved.at(-1)?.size ?? null;
      verdicts.push({
        workspace_id,
        verified: reason === null,
        checked,
        head_hash,
        broken_seq,
        reason,
        checkpoint_size,
      });
    }
    return verdicts;
  });
}

/** A row in the form of an export line. */
function toExportRow({ payload, occurred_at, ...row }: AuditLogRow): Record<string, unknown> {
  return {
    object: "audit_log",
    ...row,
    occurred_at: formatTimestamp(occurred_at),
    payload: JSON.parse(payload) as unknown,
  };
}

/** Passes the rows of the selected chain, or of all chains, to `take`. */
export async function readOffline(
  options: OfflineOptions,
  page: { after: number; limit: number },
  take: (row: Record<string, unknown>) => void,
): Promise<void> {
  await withOfflineSource(await databaseOf(operatorSettings(options)), async (source) => {
    const wanted = selectedChain(options);
    const chains = (await listChains(source)).map(({ workspace_id }) => workspace_id);
    if (wanted && wanted !== NIL_WORKSPACE) requireChain(chains, wanted); // the deployment's may have no row yet
    for (const workspace_id of wanted ? [wanted] : chains) {
      let { after } = page;
      let left = page.limit;
      while (left > 0) {
        const rows = await readChainRows(source, workspace_id, after, Math.min(PAGE, left));
        for (const row of rows) take(toExportRow(row));
        if (rows.length < Math.min(PAGE, left)) break;
        left -= rows.length;
        after = rows.at(-1)?.seq ?? after;
      }
    }
  });
}
