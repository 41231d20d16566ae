// Bodies that never end, and floods of connections: bounded by owner, and others are served.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testInstance, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { until } from "../../harness/waiting.ts";

const MIB = 1024 * 1024;
const sockets: Socket[] = [];

async function open(r: TestInstance, localAddress = "127.0.0.1"): Promise<Socket> {
  const { hostname, port } = new URL(r.url);
  const socket = connect({ port: Number(port), host: hostname, localAddress });
  sockets.push(socket);
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

for (const lane of ["on", "off"] as const) {
  describe(`with the fast lane ${lane}`, () => {
    let r: TestInstance;
    let w: Workspace;
    beforeAll(async () => {
      r = await testInstance("sqlite", { flags: { fast_lane: lane, bodies_mb: "32", connections_max: "16" } });
      w = await r.workspace();
    });
    afterAll(async () => {
      for (const socket of sockets.splice(0)) socket.destroy();
      await r[Symbol.asyncDispose]();
    });

    it("bodies of one cell that never end hold its share and no more; another cell is read", async () => {
      const ledger = r.app.services.shares.of("bodies");
      const head = `POST /v1/idempotency/complete HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${w.keys.sk_test}\r\ncontent-type: application/json\r\ncontent-length: ${4 * MIB}\r\n\r\n`;
      const clients: Socket[] = [];
      for (let i = 0; i < 6; i++) {
        const socket = await open(r);
        clients.push(socket);
        socket.write(`${head}{"body":"`);
        socket.write("x".repeat(3 * MIB));
      }
      await until(() => (ledger.refused.get("cell") ?? 0) >= 4);
      expect(ledger.used).toBe(8 * MIB);
      const meta = { text: "x".repeat(70_000) };
      const live = await w.call("sk_owner", "POST /v1/tenants", { external_id: "t", meta });
      expect(live.status).toBe(400); // read and validated
      for (const client of clients) client.destroy();
      await until(() => ledger.used === 0);
    });

    it("a network at the bound of connections loses its own oldest, not another network's", async () => {
      const ledger = r.app.services.shares.of("connections");
      await until(() => ledger.used <= 2);
      const crowd: Socket[] = [];
      while (ledger.used < 16) {
        crowd.push(await open(r, "127.0.1.1"));
        const count = ledger.used;
        await until(() => ledger.used >= Math.min(16, count));
      }
      const other = await open(r, "127.0.2.1");
      await until(() => crowd.some(({ readyState, readableEnded }) => readyState !== "open" || readableEnded));
      other.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      const [answer] = (await once(other, "data")) as [Buffer];
      expect(String(answer)).toContain("200 OK");
      expect(ledger.used).toBeLessThanOrEqual(16);
    });
  });
}
