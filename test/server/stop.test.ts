// Stopping: silent and idle connections do not delay it (requests in flight have five seconds).
import { once } from "node:events";
import { Server } from "node:http";
import { connect } from "node:net";
import { expect, it, vi } from "vitest";
import { testInstance } from "../../harness/instances/test-instance.ts";

it("a stop does not wait for connections without a request in flight", async () => {
  await using r = await testInstance("sqlite");
  const silent = connect(Number(new URL(r.url).port), "127.0.0.1");
  await once(silent, "connect");
  expect((await r.call(null, "GET /healthz")).status).toBe(200);
  const closed = once(silent, "close");
  silent.resume();
  const forced = vi.spyOn(Server.prototype, "closeAllConnections");
  await r.stop();
  await closed;
  expect(forced).not.toHaveBeenCalled();
});
