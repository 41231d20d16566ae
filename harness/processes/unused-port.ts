// A port for a program that must be given one. Where a program can, it listens on port 0 instead.
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";

/** Below the range that the system chooses from, and above those of Redis (harness/databases/redis.ts). */
const RANGE = [27_000, 32_000] as const;

export async function unusedPort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(randomInt(...RANGE), "127.0.0.1");
    try {
      await once(server, "listening");
    } catch {
      continue; // taken
    }
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    return port;
  }
}
