// Builds the web assets before any test runs, when their sources are newer than dist/web.
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));

function newest(folder: string): number {
  try {
    const entries = readdirSync(root + folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    return Math.max(0, ...files.map(({ parentPath, name }) => statSync(`${parentPath}/${name}`).mtimeMs));
  } catch {
    return 0;
  }
}

function oldest(folder: string): number {
  try {
    return Math.min(...readdirSync(root + folder).map((name) => statSync(`${root}${folder}/${name}`).mtimeMs));
  } catch {
    return 0;
  }
}

export async function buildWebAssets(): Promise<void> {
  const sources = Math.max(newest("src/web"), statSync(`${root}tools/build-web.ts`).mtimeMs);
  const built = oldest("dist/web");
  if (Number.isFinite(built) && built >= sources) return;
  await promisify(execFile)(process.execPath, [`${root}tools/build-web.ts`]);
}
