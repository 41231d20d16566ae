// The listener: what waits in the kernel until the server accepts it, and what it cannot accept.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { expect, it } from "vitest";
import { testServices } from "../../harness/instances/test-services.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { skipOrFail } from "../../harness/processes/tools.ts";
import { DEADLINE_MS } from "../../harness/waiting.ts";
import { RequestMetrics } from "../../src/http/metrics.ts";
import { listenForMetrics } from "../../src/server/listen.ts";

const COUNT = 1_000;
const SOMAXCONN = "/proc/sys/net/core/somaxconn";
function kernelAllows(): boolean {
  // Only Linux has it.
  if (existsSync(SOMAXCONN) && Number(readFileSync(SOMAXCONN, "utf8")) > COUNT) return true;
  skipOrFail("somaxconn", "many waiting connections", `is not above ${COUNT}`);
  return false;
}

it.runIf(kernelAllows())("keeps a thousand connections until the server is no longer busy", async () => {
  await using instance = await testInstance("sqlite");
  const { hostname, port } = new URL(instance.url);
  const script = `let open = 0;
    for (let i = 0; i < ${COUNT}; i++)
      require("node:net").connect(${port}, "${hostname}", () => ++open === ${COUNT} && process.exit(0));`;
  // This process, which the server runs in, waits for the client and accepts nothing meanwhile.
  const { status } = spawnSync(process.execPath, ["-e", script], { timeout: DEADLINE_MS });
  expect(status).toBe(0);
});

it("logs every connection that it could not accept, and continues", async () => {
  await using f = await testServices("sqlite");
  const server = await listenForMetrics(f.services, new RequestMetrics([]), createServer());
  for (let i = 0; i < 2; i++) server.emit("error", new Error("accept EMFILE"));
  expect(f.logged.map(({ level, event }) => [level, event])).toEqual([
    ["error", "a connection was not accepted"],
    ["error", "a connection was not accepted"],
  ]);
  expect(server.listening).toBe(true);
  server.close();
});
