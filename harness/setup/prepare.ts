// Prepares what the test files share, side by side: PostgreSQL mostly waits for its own processes while the program is
// built.
import type { TestProject } from "vitest/node";
import { prepareProgram } from "./program.ts";
import { startServers } from "./servers.ts";
import { buildWebAssets } from "./web-assets.ts";

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [servers, program] = await Promise.allSettled([
    startServers(project),
    buildWebAssets().then(prepareProgram), // the program serves the assets while its cache is filled
  ]);
  if (servers.status === "rejected") throw servers.reason;
  if (program.status === "fulfilled") return servers.value;
  await servers.value();
  throw program.reason;
}
