// Clients that never read their answers: the bytes are bounded by owner, the connections are closed, and other
// workspaces are served. With both lanes.
import { EventEmitter, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { codeOf, sendRaw } from "../../harness/processes/raw-http.ts";
import { testInstance, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { pace, turns, until } from "../../harness/waiting.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { LargeResponses } from "../../src/fairness/large-responses.ts";
import { sendStream, Stalls } from "../../src/http/sending/stalls.ts";
import { Connections, type TrackedSocket } from "../../src/http/connections.ts";
import { unboundedLedger } from "../../harness/ledgers.ts";

/** Never reached in the tests of the lane that is on. */
const STALL_MS = { on: "600000", off: "500" };

async function heavyWorkspace(instance: TestInstance): Promise<Workspace> {
  const workspace = await instance.workspace();
  const id = "lower(hex(randomblob(4))) || '-0000-4000-8000-' || lower(hex(randomblob(6)))";
  const meta = `'{"t":"' || substr(hex(zeroblob(8000)), 1, 15000) || '"}'`;
  const numbers = "with recursive s(n) as (select 1 union all select n + 1 from s where n < 600) select n from s";
  await instance.sql(
    `insert into tenants (id, external_id, created_at, meta, workspace_id, updated_at) select ${id}, 'e' || n, 1, ${meta}, workspace_id, updated_at from (${numbers}) as s cross join (select * from tenants where id = '${workspace.tenant_id}') as t`,
  );
  return workspace;
}

for (const lane of ["on", "off"] as const) {
  describe(`with the fast lane ${lane}, clients that never read`, () => {
    let instance: TestInstance;
    let workspace: Workspace;
    const clients: Socket[] = [];
    beforeAll(async () => {
      instance = await testInstance("sqlite", {
        flags: { fast_lane: lane, unsent_mb: "16", send_stall_ms: STALL_MS[lane] },
      });
      workspace = await heavyWorkspace(instance);
    });
    afterAll(async () => {
      for (const client of clients) client.destroy();
      await instance[Symbol.asyncDispose]();
    });

    const request = (path = "/v1/tenants"): string =>
      `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\n\r\n`;
    async function neverReads(): Promise<Socket> {
      const { hostname, port } = new URL(instance.url);
      const socket = connect(Number(port), hostname).pause();
      clients.push(socket);
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.write(request());
      return socket;
    }
    const unsent = () => instance.app.services.shares.of("unsent");

    it("are charged nothing if they leave before their answer is ready", async () => {
      const { store } = instance.app.services;
      const durable = store.durable.bind(store);
      const held = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      store.durable = () => {
        asked.resolve();
        return held.promise;
      };
      const connections = instance.app.services.shares.of("connections");
      const open = connections.used;
      const socket = await neverReads();
      await asked.promise;
      clients.pop();
      socket.resetAndDestroy();
      await until(() => connections.used === open);
      store.durable = durable;
      held.resolve();
      await turns(10);
      expect(unsent().used).toBe(0);
    });

    if (lane === "on") {
      it("hold no more than their share: their owner is refused, a neighbour is not", async () => {
        Object.assign(instance.app.services, { largeResponses: new LargeResponses(unsent(), 1) });
        await neverReads();
        await until(() => unsent().used > 0);
        const held = unsent().used;
        for (let i = 0; i < 10; i++) {
          const [refused] = await sendRaw(instance.url, request(), { count: 1 });
          expect(refused && codeOf(refused)).toEqual([503, "unavailable"]);
        }
        expect(unsent().used).toBe(held);
        const neighbour = await instance.workspace();
        expect((await neighbour.call("sk_owner", "GET /v1/tenants")).status).toBe(200);
        clients[0]?.destroy();
        await until(() => unsent().used === 0);
      });

      it("a client that reads gets the whole answer, and the answer to the request behind it", async () => {
        const both = await sendRaw(instance.url, request() + request("/v1/projects"), { count: 2 });
        expect(both.map(({ status }) => status)).toEqual([200, 200]);
        expect(JSON.parse(both[0]?.body ?? "")).toMatchObject({ has_more: true });
      });
    } else {
      it("are disconnected", async () => {
        const charges = vi.spyOn(unsent(), "take"); // the charge itself may be over before it is seen
        const client = await neverReads();
        await until(() => charges.mock.calls.length > 0);
        await until(() => unsent().used === 0);
        client.resume();
        await until(() => client.closed);
        expect(client.bytesRead).toBeLessThan(8 * 1024 * 1024);
      });
    }
  });
}

it("cuts an export whose client has read nothing for 30 s, so that the client notices", async () => {
  await using instance = await testInstance("sqlite", { flags: { send_stall_ms: "500" } });
  const workspace = await instance.workspace();
  const payload = `'{"t":"' || substr(hex(zeroblob(16000)), 1, 30000) || '"}'`;
  await instance.sql(`insert into audit_log with recursive n(i) as (select 100 union all select i + 1 from n where i < 700)
    select '${workspace.id}', i, 'row' || i, 1, 'system', null, 'project.updated', 'project', null, ${payload}, 'p' || i, 'h' || i from n`);
  await instance.sql(`update audit_heads set seq = 700 where workspace_id = '${workspace.id}'`);
  const exports = instance.app.services.shares.of("exports");
  const { hostname, port } = new URL(instance.url);
  const client = connect(Number(port), hostname).pause();
  client.on("error", () => {});
  await once(client, "connect");
  client.write(
    `GET /v1/audit_logs/export HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\n\r\n`,
  );
  await until(() => exports.used === 1 && instance.app.services.shares.of("unsent").used > 0);
  const real = performance.now.bind(performance);
  const later = vi.spyOn(performance, "now");
  try {
    let aheadMs = 0;
    later.mockImplementation(() => real() + (aheadMs += 10_000));
    while (exports.used > 0) await pace();
  } finally {
    later.mockRestore();
  }
  const received: Buffer[] = [];
  client.on("data", (chunk: Buffer) => received.push(chunk)).resume();
  await until(() => client.closed);
  const text = Buffer.concat(received).toString("latin1");
  expect(text.startsWith("HTTP/1.1 200 OK")).toBe(true);
  expect([text.includes("audit-to-seq: 700"), text.endsWith("\r\n0\r\n\r\n")]).toEqual([true, false]);
});

describe("a connection that owes bytes", () => {
  type Fake = { writableLength: number; bytesWritten: number; destroyed: boolean; destroy(): void };
  const fake = (): Fake => ({
    writableLength: 0,
    bytesWritten: 0,
    destroyed: false,
    destroy() {
      this.destroyed = true;
    },
  });

  it("is closed when it takes less than 64 KiB in the time allowed, and kept while it takes that or all", () => {
    let now = 0;
    const connections = new Connections(unboundedLedger());
    const sockets = [fake(), fake(), fake()];
    for (const socket of sockets) connections.open.add(socket as unknown as TrackedSocket);
    const stalls = new Stalls(connections, 1_000, () => now);
    const [idle, slow, stuck] = sockets as [Fake, Fake, Fake];
    slow.writableLength = stuck.writableLength = 64 * 1024;
    slow.bytesWritten = stuck.bytesWritten = 64 * 1024;
    for (now = 0; now < 5_000; now += 250) {
      stalls.scan();
      if (now % 750 === 0) slow.bytesWritten += 64 * 1024;
      stuck.bytesWritten += 100;
      stuck.writableLength += 90;
    }
    expect(sockets.map(({ destroyed }) => destroyed)).toEqual([false, false, true]);
    expect(idle.destroyed).toBe(false);
  });

  it("may pause for 30 s while it takes a stream, and only then", () => {
    let now = 0;
    const connections = new Connections(unboundedLedger());
    const socket = Object.assign(fake(), { writableLength: 1, bytesWritten: 1 });
    connections.open.add(socket as unknown as TrackedSocket);
    const stalls = new Stalls(connections, 1_000, () => now);
    const res = Object.assign(new EventEmitter(), { socket, destroyed: false });
    const stream = new Readable({ read() {} });
    sendStream(res as unknown as ServerResponse, stream);
    for (now = 0; now < 30_000; now += 250) stalls.scan();
    expect(socket.destroyed).toBe(false);
    stalls.scan();
    expect(socket.destroyed).toBe(true);
    res.emit("close");
    expect(stream.destroyed).toBe(true);
    socket.destroyed = false;
    stalls.scan();
    expect(socket.destroyed).toBe(true);
  });

  it("is evicted at the bound only after those that were quiet for longer", async () => {
    const connections = new Connections(new Ledger({ bound: 2, share: 2 }));
    const server = createServer((_req, res) => res.end("ok"));
    connections.attach(server, "connection");
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const ends: string[] = [];
    const open = async (name: string): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.on("close", () => ends.push(name));
      await Promise.all([once(socket, "connect"), once(server, "connection")]);
      return socket;
    };
    const first = await open("first");
    const second = await open("second");
    first.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await once(first, "data");
    second.resume();
    const third = await open("third");
    await until(() => ends.length > 0);
    expect(ends).toEqual(["second"]);
    for (const socket of [first, third]) socket.destroy();
    server.close();
  });
});
