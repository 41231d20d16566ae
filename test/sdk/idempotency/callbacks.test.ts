// Idempotent fastify handlers that respond by a callback, after they have returned.

import { request as sendRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import fastify, { type FastifyReply } from "fastify";
import { describe, expect, it } from "vitest";
import * as onFastify from "../../../src/sdk/adapters/fastify.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { turns, until } from "../../../harness/waiting.ts";

/** `respond` is called after the handler has returned. */
async function startApp(respond: (reply: FastifyReply, run: number) => void) {
  const s = await startIdempotentServer();
  const app = fastify({ forceCloseConnections: true });
  let runs = 0;
  app.post(
    "/",
    { preHandler: onFastify.protect(s.r.keyrack) },
    onFastify.idempotent(s.r.keyrack, (_request, reply) => {
      const run = ++runs;
      setImmediate(() => respond(reply, run));
    }),
  );
  await app.listen({ port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  const { "idempotency-key": _none, ...unclaimed } = s.headers;
  return {
    s,
    url,
    runs: () => runs,
    connections: promisify(app.server.getConnections.bind(app.server)),
    async post(options: { unclaimed?: boolean } = {}) {
      const response = await fetch(url, {
        method: "POST",
        body: "{}",
        headers: options.unclaimed ? unclaimed : s.headers,
      });
      return [response.status, await response.text(), response.headers.get("idempotent-replayed")];
    },
    async [Symbol.asyncDispose]() {
      await app.close();
      await s[Symbol.asyncDispose]();
    },
  };
}

describe("a fastify handler that responds by a callback", () => {
  it("has its response sent, with and without the header, and replayed", async () => {
    await using app = await startApp((reply, run) => void reply.code(201).send({ run }));
    expect(await app.post({ unclaimed: true })).toEqual([201, '{"run":1}', null]);
    expect(await app.post()).toEqual([201, '{"run":2}', null]);
    expect(await app.post()).toEqual([201, '{"run":2}', "true"]);
    expect(app.s.verbs()).toEqual(["claim", "complete", "claim"]);
  });

  it("may send twice: fastify ignores the second, as it does without a claim", async () => {
    await using app = await startApp((reply) => void reply.send("first").send("second"));
    for (const replayed of [null, "true"]) expect(await app.post()).toEqual([200, "first", replayed]);
  });

  it("releases the claim by sending an error, like a throw", async () => {
    await using app = await startApp(
      (reply, run) => void reply.code(503).send(run === 1 ? new Error("the bank is away") : "paid"),
    );
    expect((await app.post())[0]).toBe(503);
    expect(await app.post()).toEqual([503, "paid", null]);
    expect(await app.post()).toEqual([503, "paid", "true"]);
    expect(app.s.verbs()).toEqual(["claim", "release", "claim", "complete", "claim"]);
  });

  it("has its response stored when its client disconnects first", async () => {
    let finish = () => {};
    await using app = await startApp((reply) => (finish = () => void reply.code(201).send("charged")));
    const leaving = sendRequest(app.url, { method: "POST", headers: { ...app.s.headers, "content-length": "2" } });
    leaving.on("error", () => {}).end("{}");
    const none = finish;
    await until(() => finish !== none);
    leaving.destroy();
    await expect.poll(() => app.connections()).toBe(0);
    await turns(); // the response's own event follows
    finish();
    await until(() => app.s.verbs().includes("complete"));
    expect(await app.post()).toEqual([201, "charged", "true"]);
    expect([app.runs(), app.s.verbs()]).toEqual([1, ["claim", "complete", "claim"]]);
  });
});
