// The listener: what waits in the kernel until the server accepts it.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { skipOrFail } from "../../harness/processes/tools.ts";
import { DEADLINE_MS } from "../../harness/waiting.ts";

const COUNT = 1_000;
const SOMAXCONN = "/proc/sys/net/core/somaxconn";
function kernelAllows(): boolean {
  // Only Linux has it.
  if (existsSync(SOMAXCONN) && Number(readFileSync(SOMAXCONN, "utf8")) > COUNT) return true;
  skipOrFail("somaxconn", "many waiting connections", `is not above ${COUNT}`);
  return false;
}

it.runIf(kernelAllows())("keeps a thousand connections until the server is no longer busy", async () => {
  await using r = await testInstance("sqlite");
  const { hostname, port } = new URL(r.url);
  const script = `let open = 0;
    for (let i = 0; i < ${COUNT}; i++)
      require("node:net").connect(${port}, "${hostname}", () => ++open === ${COUNT} && process.exit(0));`;
  // This process, which the server runs in, waits for the client and accepts nothing meanwhile.
  const { status } = spawnSync(process.execPath, ["-e", script], { timeout: DEADLINE_MS });
  expect(status).toBe(0);
});
