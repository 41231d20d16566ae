// Heartbeats of a claim whose handler ends while one is on its way.

import { expect, it } from "vitest";
import * as onFetch from "../../../src/sdk/adapters/fetch.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { turns, until } from "../../../harness/waiting.ts";

for (const [verb, handle] of [
  ["complete", () => new Response("charged")],
  [
    "release",
    () => {
      throw new Error("declined");
    },
  ],
] as const) {
  it(`a heartbeat that arrives after its own ${verb} reports no lost claim`, async () => {
    await using s = await startIdempotentServer();
    const { plane, keyrack, lines } = s.instance;
    plane.idempotency.lockMs = 150;
    const handlerEnds = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    plane.injectFault = async ({ path }) => {
      if (!path.endsWith("/heartbeat")) return undefined;
      handlerEnds.resolve();
      await ended.promise;
      return undefined;
    };
    const handler = onFetch.idempotent(keyrack, async () => {
      await handlerEnds.promise;
      return handle();
    });
    const serve = onFetch.protect(keyrack, {}, handler);
    await Promise.resolve(serve(new Request("http://vendor.test/", { method: "POST", headers: s.headers }))).catch(
      () => {},
    );
    await until(() => s.verbs().includes(verb));
    const answered = plane.next("/v1/idempotency/heartbeat");
    ended.resolve();
    await answered;
    await turns(10);
    expect(lines.filter(({ level }) => level !== "debug")).toEqual([]);
  });
}
