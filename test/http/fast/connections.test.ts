// Idle connections on an injected clock, over real sockets: none is ended sooner than every response promises.
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KEEP_ALIVE_MS, LAST_EXCHANGE, type TrackedSocket } from "../../../src/http/connections.ts";
import { ScannedConnections } from "../../../src/http/fast/connections.ts";
import { unboundedLedger } from "../../../harness/ledgers.ts";

const SCAN_MS = 5_000;
const REQUEST = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

let now = 0;
let server: Server;
let connections: ScannedConnections;
/** Responses that the test sends later, as for a long poll. */
let held: ServerResponse[] = [];
let clients: Socket[] = [];

beforeEach(async () => {
  now = 0;
  held = [];
  clients = [];
  connections = new ScannedConnections(unboundedLedger(), () => now);
  server = createServer((req, res) => {
    (req.socket as TrackedSocket)[LAST_EXCHANGE] = { req, res };
    if (req.url === "/held") held.push(res);
    else res.end("{}");
  });
  connections.attach(server, "connection");
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});

afterEach(() => {
  for (const client of clients) client.destroy();
  server.closeAllConnections();
  server.close();
});

/** A connection, and the server's end of it. */
async function open(): Promise<{ client: Socket; end: Socket; request: () => Promise<void> }> {
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  clients.push(client);
  client.on("error", () => {});
  const [end] = (await once(server, "connection")) as [Socket];
  const request = async (): Promise<void> => {
    client.write(REQUEST);
    await once(client, "data");
    await expect.poll(() => (end as TrackedSocket)[LAST_EXCHANGE]?.res.writableFinished).toBe(true);
  };
  return { client, end, request };
}

/** Scans at the usual interval. */
function pass(ms: number): void {
  for (const until = now + ms; now < until; ) {
    now += SCAN_MS;
    connections.scan();
  }
}

it("node sets no idle timers, and connections are scanned until the server closes", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    const other = createServer();
    const watched = new ScannedConnections(unboundedLedger(), () => now);
    const scan = vi.spyOn(watched, "scan");
    watched.attach(other, "connection");
    expect(other.keepAliveTimeout).toBe(0);
    vi.advanceTimersByTime(3 * SCAN_MS);
    expect(scan).toHaveBeenCalledTimes(3);
    other.emit("close");
    vi.advanceTimersByTime(3 * SCAN_MS);
    expect(scan).toHaveBeenCalledTimes(3);
  } finally {
    vi.useRealTimers();
  }
});

describe("an idle connection", () => {
  it("lasts as long as every response promises, and not much longer", async () => {
    const { end, request } = await open();
    await request();
    pass(KEEP_ALIVE_MS);
    expect(end.destroyed).toBe(false);
    pass(2 * SCAN_MS);
    expect(end.destroyed).toBe(true);
  });

  it("counts from its last request", async () => {
    const { end, request } = await open();
    for (let i = 0; i < 5; i++) {
      await request();
      pass(KEEP_ALIVE_MS);
    }
    expect(end.destroyed).toBe(false);
  });

  it("is not one whose response is outstanding, and counts from that response", async () => {
    const { client, end } = await open();
    client.write(REQUEST.replace("/", "/held"));
    await expect.poll(() => held.length).toBe(1);
    pass(3 * KEEP_ALIVE_MS);
    const answeredAt = now + SCAN_MS - 1; // at the latest: right before the next scan
    held[0]?.end("{}");
    await expect.poll(() => held[0]?.writableFinished).toBe(true);
    for (let i = 0; i < 100 && !end.destroyed; i++) pass(SCAN_MS);
    expect(end.destroyed).toBe(true);
    expect(now).toBeGreaterThanOrEqual(answeredAt + KEEP_ALIVE_MS);
  });

  it("is not one that is sending a request", async () => {
    const { client, end, request } = await open();
    await request();
    pass(KEEP_ALIVE_MS);
    const before = end.bytesRead;
    client.write(REQUEST.slice(0, 10));
    await expect.poll(() => end.bytesRead).toBeGreaterThan(before);
    pass(KEEP_ALIVE_MS);
    expect(end.destroyed).toBe(false);
  });

  it("is also one that was refused, whatever it still sends", async () => {
    const { client, end, request } = await open();
    await request();
    end.end("HTTP/1.1 408 Request Timeout\r\n\r\n");
    client.write("GET / HTTP/1.1\r\nx-slow: ");
    for (let i = 0; i < 17; i++) {
      const before = end.bytesRead;
      client.write("x");
      await expect.poll(() => end.destroyed || end.bytesRead > before).toBe(true);
      pass(SCAN_MS);
    }
    expect(end.destroyed).toBe(true);
  });

  it("is also one that never sent a request", async () => {
    const { end } = await open();
    pass(KEEP_ALIVE_MS);
    expect(end.destroyed).toBe(false);
    pass(2 * SCAN_MS);
    expect(end.destroyed).toBe(true);
  });

  it("is ended at once when the server stops; one whose response is outstanding is not", async () => {
    const [idle, silent, waiting] = [await open(), await open(), await open()];
    await idle.request();
    waiting.client.write(REQUEST.replace("/", "/held"));
    await expect.poll(() => held.length).toBe(1);
    connections.endIdle();
    expect([idle, silent, waiting].map(({ end }) => end.destroyed)).toEqual([true, true, false]);
  });
});
