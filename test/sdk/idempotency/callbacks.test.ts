// Idempotent handlers that respond after they have returned: by a callback, by a stream, or behind `next()`.

import { type RequestListener, request as sendRequest, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import express from "express";
import fastify, { type FastifyReply, type RouteHandlerMethod } from "fastify";
import { describe, expect, it } from "vitest";
import * as onExpress from "../../../src/sdk/adapters/express.ts";
import * as onFastify from "../../../src/sdk/adapters/fastify.ts";
import * as onNode from "../../../src/sdk/adapters/node.ts";
import type { Keyrack } from "../../../src/sdk/instance.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { until } from "../../../harness/waiting.ts";

/** `respond` is called after the handler has returned. */
async function startApp(respond: (reply: FastifyReply, run: number) => void) {
  const s = await startIdempotentServer();
  const app = fastify({ forceCloseConnections: true });
  let runs = 0;
  app.post(
    "/",
    { preHandler: onFastify.protect(s.instance.keyrack) },
    onFastify.idempotent(s.instance.keyrack, (_request, reply) => {
      const run = ++runs;
      setImmediate(() => respond(reply, run));
    }),
  );
  await app.listen({ port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  const { "idempotency-key": _none, ...unclaimed } = s.headers;
  return {
    s,
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
});

type Wrapped = (keyrack: Keyrack, charge: (respond: (body: string) => void) => void) => RequestListener;
/** Each calls `charge` with a function that responds, and returns before that is called. */
const forms: Record<string, Wrapped> = {
  "a callback on node:http": (keyrack, charge) =>
    onNode.protect(
      keyrack,
      {},
      onNode.idempotent(keyrack, (_req, res) => charge((body) => void res.writeHead(201).end(body))),
    ),
  "next() on express": (keyrack, charge) =>
    express()
      .use(onExpress.protect(keyrack))
      .use(onExpress.idempotent(keyrack, async (_req, _res, next) => next()))
      .use((_req, res) => charge((body) => void res.status(201).send(body))),
  "a callback on fastify": (keyrack, charge) =>
    onFastifyServer(keyrack, (_request, reply) => charge((body) => void reply.code(201).send(body))),
  "a callback and the reply on fastify": (keyrack, charge) =>
    onFastifyServer(keyrack, async (_request, reply) => {
      charge((body) => void reply.code(201).send(body));
      return reply;
    }),
};

function onFastifyServer(keyrack: Keyrack, handler: RouteHandlerMethod): RequestListener {
  const app = fastify();
  app.post("/", { preHandler: onFastify.protect(keyrack) }, onFastify.idempotent(keyrack, handler as never));
  return (req, res) => void app.ready().then(() => app.routing(req, res));
}

describe("a handler whose work continues after it returned", () => {
  // At the same time, because each waits for heartbeats.
  it.concurrent.each(Object.keys(forms))("keeps its claim when its client disconnects: %s", async (name) => {
    await using s = await startIdempotentServer();
    s.instance.plane.idempotency.lockMs = 900;
    const responds: ((body: string) => void)[] = [];
    const listener = forms[name]?.(s.instance.keyrack, (respond) => void responds.push(respond)) ?? (() => {});
    const closed: string[] = [];
    const url = await s.serve((req, res) => {
      res.once("close", () => closed.push(req.url ?? ""));
      listener(req, res);
    });
    const leaving = sendRequest(url, { method: "POST", headers: { ...s.headers, "content-length": "2" } });
    leaving.on("error", () => {}).end("{}");
    await until(() => responds.length === 1);
    leaving.destroy();
    await until(() => closed.length === 1);
    const heartbeats = () => s.verbs().filter((verb) => verb === "heartbeat").length;
    const before = heartbeats();
    await until(() => heartbeats() > before + 1);
    responds[0]?.("charged");
    await until(() => s.verbs().includes("complete"));
    const retry = await fetch(url, { method: "POST", body: "{}", headers: s.headers });
    expect([retry.status, await retry.text(), retry.headers.get("idempotent-replayed")]).toEqual([
      201,
      "charged",
      "true",
    ]);
    expect(responds).toHaveLength(1);
  });

  it("lets its claim lapse when its client disconnects from the stream that is its response", async () => {
    await using s = await startIdempotentServer();
    s.instance.plane.idempotency.lockMs = 300;
    const streams: PassThrough[] = [];
    const stream = (_req: unknown, res: ServerResponse) => {
      const made = new PassThrough();
      streams.push(made);
      made.pipe(res);
      made.write("first");
    };
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, stream)));
    const leaving = sendRequest(url, { method: "POST", headers: { ...s.headers, "content-length": "2" } });
    leaving.on("error", () => {}).end("{}");
    await until(() => streams.length === 1);
    leaving.destroy();
    await expect
      .poll(async () => {
        const retry = await fetch(url, { method: "POST", body: "{}", headers: s.headers });
        streams[1]?.end();
        return [retry.status, await retry.text()];
      })
      .toEqual([200, "first"]);
  });
});
