// Rotates the master key of a deployment that nobody runs: the new key on disk, everything sealed anew in one transaction,
// then the new key in the old one's place. Cut short anywhere, the next start finds the key that fits.
import { resolve } from "node:path";
import { BadSetting, type Settings } from "../config/settings.ts";
import { draftMasterKey } from "./data-dir.ts";
import { reseal, type Resealed } from "../domain/vault/master-key.ts";
import { databaseTarget, openOffline, toStartRefused } from "./instance.ts";
import type { Log } from "../platform/log.ts";
import { assertUnused } from "../store/postgres/restore.ts";

export type Rotated = { object: "master_key_rotation"; old_key_file: string; resealed: Resealed };

export async function rotateMasterKey(settings: Settings, log: Log): Promise<Rotated> {
  process.umask(0o077);
  const dir = resolve(settings.data_dir);
  try {
    if (settings.idempotency_store !== "database")
      throw new BadSetting(
        "Answers kept in Redis cannot be sealed anew: use KEYRACK_IDEMPOTENCY_STORE=database first.",
      );
    const target = databaseTarget(settings, dir);
    if (target.kind === "postgres") await assertUnused(target);
    const offline = await openOffline({ settings, log });
    try {
      const draft = draftMasterKey(settings, dir);
      const resealed = await reseal(offline.services, draft.vault);
      return { object: "master_key_rotation", old_key_file: draft.promote(), resealed };
    } finally {
      await offline.close();
    }
  } catch (error) {
    throw toStartRefused(error);
  }
}
