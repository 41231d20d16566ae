// The plain copy of every checkpoint in the data dir: `checkpoints/<workspace_id>.txt`, notes one after another, each
// followed by an empty line. Only ever appended to; copied elsewhere, it outlives whoever rewrites the database.
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
    // The note is in the database; the copy is worth a warning and not the checkpoint.
    services.log.warn("audit_checkpoint_file", { workspace_id, error: (error as Error).message });
  }
}
