// How long a connection may take.
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { connectPostgres } from "../../../src/store/postgres/client.ts";
import { isConnectionLost, isTimeout } from "../../../src/store/postgres/connection-lost.ts";

describe("connecting to a PostgreSQL that does not respond", () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    ["", 3_000],
    ["?connect_timeout=7", 7_000],
  ])("fails in time with the parameters %j", async (parameters, ms) => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { port } = server.address() as AddressInfo;
    let outcome: unknown = "waiting";
    const connecting = connectPostgres(`postgres://keyrack@127.0.0.1:${port}/keyrack${parameters}`).catch(
      (error: unknown) => (outcome = error),
    );
    await once(server, "connection");
    await vi.advanceTimersByTimeAsync(ms - 1);
    expect(outcome).toBe("waiting");
    await vi.advanceTimersByTimeAsync(1);
    await connecting;
    expect([isConnectionLost(outcome), isTimeout(outcome)]).toEqual([true, true]);
    for (const socket of sockets) socket.destroy();
    server.close();
  });
});
