// A client that closes its connection before its check is answered is not charged: a node owes the request then, and
// sends it.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";
import type { QuotaBank } from "../../../src/domain/quotas/bank.ts";

for (const backend of runBackends) {
  describe(`a check of quotas on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("charges nothing when its client disconnects while units are being fetched", async () => {
      const workspace = await instance.workspace();
      const quotas = [{ id: "calls", amount: 640, refill: "none" }];
      const key = await workspace.mint({ quotas });
      const subject = { project_id: workspace.project_id, env: "live", key_id: key.id, limits: [], quotas: true };
      const bank = instance.app.services.quotas;
      const fetch = bank.fetch.bind(bank);
      const [fetched, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      bank.fetch = async (...args: Parameters<QuotaBank["fetch"]>) => {
        await fetch(...args);
        fetched.resolve();
        await gone.promise;
      };
      const accepted = new Set<Socket>();
      const accept = (message: unknown) => void accepted.add((message as { socket: Socket }).socket);
      subscribe("net.server.socket", accept);
      const { hostname, port } = new URL(instance.url);
      const socket = connect(Number(port), hostname);
      await once(socket, "connect");
      const body = JSON.stringify({ ...subject, cost: 5 });
      socket.write(
        `POST /v1/ratelimit/check HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await fetched.promise;
      bank.fetch = fetch;
      unsubscribe("net.server.socket", accept);
      const served = [...accepted].find(({ remotePort }) => remotePort === socket.localPort);
      const closed = once(served!, "close");
      socket.destroy();
      await closed;
      gone.resolve();
      const { body: peek } = await workspace.call("sk_owner", "POST /v1/ratelimit/check", { ...subject, cost: 0 });
      expect(peek.quotas[0].remaining).toBe(640);
      const { body: charged } = await workspace.call("sk_owner", "POST /v1/ratelimit/check", subject);
      expect([charged.allowed, charged.quotas[0].remaining]).toEqual([true, 639]);
    });
  });
}
