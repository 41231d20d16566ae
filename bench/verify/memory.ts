// The memory of a policy, per key. `write DIR N` writes the pages of N keys; `load DIR`, in its own process with
// --expose-gc, loads them, so that only the memory of loading is counted.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SnapshotLoader } from "../../src/kernel/policy/loader.ts";
import { mint, pagesOf } from "./world.ts";

const [, , verb, dir = "", count = "0"] = process.argv;

if (verb === "write") {
  const keys = Array.from({ length: Number(count) }, mint);
  let page = 0;
  for (const text of pagesOf(keys)) writeFileSync(join(dir, String(page++).padStart(6, "0")), text);
} else {
  // Read and parse once before: the engine keeps some of that memory in any case.
  const files = readdirSync(dir).toSorted();
  for (const file of files) JSON.parse(readFileSync(join(dir, file), "utf8"));
  const before = await settled();
  const policy = load(files);
  const after = await settled();
  const resident = (after.rss - before.rss) / policy.keys.count;
  const used = (after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers) / policy.keys.count;
  console.log(JSON.stringify({ resident, used }));
}

function load(files: readonly string[]) {
  let loader: SnapshotLoader | null = null;
  for (const file of files) {
    const page = JSON.parse(readFileSync(join(dir, file), "utf8")) as { project_id: string };
    loader ??= new SnapshotLoader({ projectId: page.project_id, env: null, maxKeys: 1e7 });
    loader.add(page);
  }
  return (loader as SnapshotLoader).finish();
}

/** After garbage collection; the engine sweeps and releases memory with a delay. */
async function settled(): Promise<NodeJS.MemoryUsage> {
  for (let i = 0; i < 8; i++) {
    (globalThis as { gc?: () => void }).gc?.();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return process.memoryUsage();
}
