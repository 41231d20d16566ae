// Stopping: silent and idle connections do not delay it (requests in flight have ten seconds).
import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { testInstance } from "../../harness/instances/test-instance.ts";

it("a stop does not wait for connections without a request in flight", { timeout: 8_000 }, async () => {
  await using r = await testInstance("sqlite");
  const silent = connect(Number(new URL(r.url).port), "127.0.0.1");
  await once(silent, "connect");
  expect((await r.call(null, "GET /healthz")).status).toBe(200);
  const closed = once(silent, "close");
  silent.resume();
  await r.stop();
  await closed;
});
