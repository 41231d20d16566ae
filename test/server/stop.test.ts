// Stopping: a connection that never spoke, and an idle one, hold nothing up (the grace for real work is ten seconds).
import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import { testInstance } from "../../harness/instances/test-instance.ts";

it("a stop waits for no connection on which nothing is being answered", { timeout: 8_000 }, async () => {
  await using r = await testInstance("sqlite");
  const silent = connect(Number(new URL(r.url).port), "127.0.0.1");
  await once(silent, "connect");
  expect((await r.call(null, "GET /healthz")).status).toBe(200);
  const closed = once(silent, "close");
  silent.resume();
  await r.stop();
  await closed;
});
