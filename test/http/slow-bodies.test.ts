// Bodies that never end, and floods of connections: bounded by owner, and others are served.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { testInstance, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { networkOwner } from "../../src/fairness/owners.ts";
import { until } from "../../harness/waiting.ts";

const MIB = 1024 * 1024;
const CONNECTIONS = 64;
const sockets: Socket[] = [];

async function open(instance: TestInstance, localAddress = "127.0.0.1"): Promise<Socket> {
  const { hostname, port } = new URL(instance.url);
  const socket = connect({ port: Number(port), host: hostname, localAddress });
  sockets.push(socket);
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

/** The server's ends of the connections that are opened from now on. */
function serverEnds() {
  const accepted: Socket[] = [];
  const accept = (message: unknown): void => void accepted.push((message as { socket: Socket }).socket);
  subscribe("net.server.socket", accept);
  return {
    of: ({ localPort }: Socket): Socket => accepted.find(({ remotePort }) => remotePort === localPort) as Socket,
    forget: () => void unsubscribe("net.server.socket", accept),
  };
}

for (const lane of ["on", "off"] as const) {
  describe(`with the fast lane ${lane}`, () => {
    let instance: TestInstance;
    let workspace: Workspace;
    beforeAll(async () => {
      instance = await testInstance("sqlite", {
        flags: { fast_lane: lane, bodies_mb: "32", connections_max: `${CONNECTIONS}`, trust_proxy: "127.0.9.1" },
      });
      workspace = await instance.workspace();
    });
    afterAll(async () => {
      for (const socket of sockets.splice(0)) socket.destroy();
      await instance[Symbol.asyncDispose]();
    });

    /** Counts the bodies that have to wait for room. */
    const countWaits = (kind: "authenticated" | "anonymous"): (() => number) => {
      const reserve = vi.spyOn(instance.app.services.bodies[kind], "reserve");
      onTestFinished(() => reserve.mockRestore());
      return () => reserve.mock.results.filter(({ value }) => value instanceof Promise).length;
    };

    it("bodies of one cell that never end hold its share and no more; another cell is read", async () => {
      const ledger = instance.app.services.shares.of("bodies");
      const waits = countWaits("authenticated");
      const head = `POST /v1/idempotency/complete HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_test}\r\ncontent-type: application/json\r\ncontent-length: ${4 * MIB}\r\n\r\n`;
      const clients: Socket[] = [];
      for (let i = 0; i < 6; i++) {
        const socket = await open(instance);
        clients.push(socket);
        socket.write(`${head}{"body":"`);
        socket.write("x".repeat(3 * MIB));
      }
      await until(() => waits() === 4);
      expect(ledger.used).toBe(8 * MIB);
      const meta = { text: "x".repeat(70_000) };
      const live = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "t", meta });
      expect(live.status).toBe(400); // read and validated
      for (const client of clients) client.destroy();
      await until(() => ledger.used === 0);
    });

    it("small bodies that do not end are charged, and above the share of their network refused", async () => {
      const ledger = instance.app.services.shares.of("anonymous_bodies");
      const length = 60_000;
      const head = `POST /v1/auth/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
      const clients: Socket[] = [];
      for (let i = 0; i < 3; i++) {
        const socket = await open(instance);
        clients.push(socket);
        socket.write(`${head}{"email":"`);
        await until(() => ledger.used === (i + 1) * length);
      }
      const held = ledger.limits.share - ledger.used;
      ledger.take(networkOwner("127.0.0.1"), held);
      const refused = await open(instance);
      refused.write(`${head}{"email":"`);
      const [answer] = (await once(refused, "data")) as [Buffer];
      expect(String(answer)).toContain("503");
      ledger.release(networkOwner("127.0.0.1"), held);
      for (const client of clients) client.destroy();
      await until(() => ledger.used === 0);
    });

    it("bodies that wait for room are not read, and few of a network wait", async () => {
      const ledger = instance.app.services.shares.of("anonymous_bodies");
      const network = networkOwner("127.0.0.1");
      const waits = countWaits("anonymous");
      ledger.take(network, ledger.limits.share);
      const head =
        "POST /v1/auth/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 250000\r\n\r\n";
      const ends = serverEnds();
      const clients: Socket[] = [];
      for (let i = 0; i < 32; i++) {
        const socket = await open(instance);
        clients.push(socket);
        socket.write(`${head}{"email":"`);
        await until(() => waits() === i + 1);
      }
      for (const socket of clients) socket.write("x".repeat(200_000));
      const [first, last] = clients as [Socket, Socket];
      for (let i = 0; i < 3; i++) expect((await instance.call(null, "GET /healthz")).status).toBe(200);
      expect(Math.max(...clients.map((client) => ends.of(client).bytesRead))).toBeLessThan(1_000);
      const refused = await open(instance);
      refused.write(`${head}{"email":"`);
      const [answer] = (await once(refused, "data")) as [Buffer];
      expect(String(answer)).toMatch(/^HTTP\/1.1 503 [^]*connection: close/i);
      // Once there is room they are read.
      ledger.release(network, ledger.limits.share);
      ends.of(last).destroy();
      await until(() => ends.of(first).bytesRead > 200_000);
      for (const client of clients) client.destroy();
      ends.forget();
      await until(() => ledger.used === 0);
    });

    it("a body that the endpoint does not need is dropped while the request waits", async () => {
      const { feed } = instance.app.services;
      const { body } = await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${workspace.project_id}`);
      const path = `/v1/policy/delta?project_id=${workspace.project_id}&since=${String(body.version)}&wait_ms=25000`;
      const ends = serverEnds();
      const socket = await open(instance);
      socket.write(
        `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\ncontent-length: 250000\r\n\r\n`,
      );
      await until(() => feed.waiting === 1);
      socket.write("x".repeat(240_000));
      await until(() => ends.of(socket).bytesRead > 240_000);
      expect(feed.waiting).toBe(1);
      socket.destroy();
      ends.forget();
      await until(() => feed.waiting === 0);
    });

    it("the connection of a trusted proxy counts for the client of its last request", async () => {
      const ledger = instance.app.services.shares.of("connections");
      const proxy = await open(instance, "127.0.9.1");
      for (const client of ["203.0.113.9", "198.51.100.9"]) {
        proxy.write(`GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: ${client}\r\n\r\n`);
        await once(proxy, "data");
        expect([client, ledger.usedBy(networkOwner(client))]).toEqual([client, 1]);
      }
      expect(["203.0.113.9", "127.0.9.1"].map((address) => ledger.usedBy(networkOwner(address)))).toEqual([0, 0]);
      proxy.destroy();
    });

    it("clients of a proxy get connections while one of them holds all with polls and unfinished bodies", async () => {
      const ledger = instance.app.services.shares.of("connections");
      const { feed } = instance.app.services;
      const { body } = await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${workspace.project_id}`);
      const poll = `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${String(body.version)}&wait_ms=25000`;
      const fields = (client: string): string =>
        ` HTTP/1.1\r\nhost: x\r\nx-forwarded-for: ${client}\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\n`;
      const crowd: Socket[] = [];
      for (let polls = 1; ledger.used < CONNECTIONS; polls++) {
        const socket = await open(instance, "127.0.9.1");
        crowd.push(socket);
        const isPoll = polls <= 50;
        const unfinished = `POST /v1/tenants${fields("203.0.113.9")}content-type: application/json\r\ncontent-length: 50\r\n\r\n{`;
        socket.write(isPoll ? `${poll}${fields("203.0.113.9")}\r\n` : unfinished);
        await until(() => ledger.usedBy(networkOwner("203.0.113.9")) === polls && (!isPoll || feed.waiting === polls));
      }
      for (const client of ["198.51.100.1", "198.51.100.2", "198.51.100.3"]) {
        const socket = await open(instance, "127.0.9.1");
        socket.write(`GET /healthz${fields(client)}\r\n`);
        const answer = await new Promise((resolve) => void socket.once("data", resolve).once("close", resolve));
        expect(String(answer)).toContain("200 OK");
      }
      expect([feed.waiting, crowd.filter(({ readyState }) => readyState !== "open").length]).toEqual([50, 3]);
      for (const socket of sockets.splice(0)) socket.destroy();
      await until(() => feed.waiting === 0);
    });

    it("a network at the bound of connections loses its own oldest, not another network's", async () => {
      const ledger = instance.app.services.shares.of("connections");
      await until(() => ledger.used <= 2);
      const crowd: Socket[] = [];
      while (ledger.used < CONNECTIONS) {
        crowd.push(await open(instance, "127.0.1.1"));
        const count = ledger.used;
        await until(() => ledger.used >= Math.min(CONNECTIONS, count));
      }
      const other = await open(instance, "127.0.2.1");
      await until(() => crowd.some(({ readyState, readableEnded }) => readyState !== "open" || readableEnded));
      other.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      const [answer] = (await once(other, "data")) as [Buffer];
      expect(String(answer)).toContain("200 OK");
      expect(ledger.used).toBeLessThanOrEqual(CONNECTIONS);
      // Its own newcomer is served too.
      await until(() => ledger.used === CONNECTIONS);
      const own = await open(instance, "127.0.1.1");
      own.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      expect(String(((await once(own, "data")) as [Buffer])[0])).toContain("200 OK");
    });
  });
}
