// How long a connection may take, and which settings its session has.
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { backends, freshDatabase } from "../../../harness/databases/backends.ts";
import { connectPostgres, withPostgres } from "../../../src/store/postgres/client.ts";
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

describe.runIf(backends.includes("postgres"))("a session of PostgreSQL", () => {
  it("has our settings, and those of the URL that do not conflict with them", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const parameters = new URLSearchParams({
      options: "-c geqo=off -c statement_timeout=9s",
      lock_timeout: "9000",
      application_name: "theirs",
    });
    const url = `${target.url}${target.url.includes("?") ? "&" : "?"}${parameters.toString()}`;
    const options = { application_name: "ours", options: "-c statement_timeout=5s -c lock_timeout=2s" };
    const names = ["geqo", "statement_timeout", "lock_timeout", "application_name"];
    const settings = (more: object) =>
      withPostgres(
        url,
        async (client) => {
          const { rows } = await client.query<{ value: string }>(
            "select current_setting(name) as value from unnest($1::text[]) as name",
            [names],
          );
          return rows.map(({ value }) => value);
        },
        more,
      );
    expect(await settings(options)).toEqual(["off", "5s", "2s", "ours"]);
    expect(await settings({})).toEqual(["off", "9s", "9s", "theirs"]);
    await dispose();
  });
});
