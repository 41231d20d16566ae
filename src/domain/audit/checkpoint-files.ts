// A plain-text copy of every checkpoint in the data dir: `checkpoints/<workspace_id>.txt`, append-only, each note
// followed by an empty line. Copied elsewhere, it is evidence against an attacker who rewrites the database.
import { existsSync } from "node:fs";
import { appendFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Services } from "../core/context.ts";

export async function appendCheckpoint(services: Services, workspace_id: string, note: string): Promise<void> {
  const { data_dir } = services.settings;
  if (!existsSync(data_dir)) return;
  const folder = join(data_dir, "checkpoints");
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await appendFile(join(folder, `${workspace_id}.txt`), `${note}\n`, { mode: 0o600 });
  } catch (error) {
    // The note is in the database: a missing copy must not fail the checkpoint.
    services.log.warn("audit_checkpoint_file", { workspace_id, error: (error as Error).message });
  }
}
