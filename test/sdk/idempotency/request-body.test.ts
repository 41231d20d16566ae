// Where idempotent() finds the body of a request, and what happens when it is too large or incomplete.

import { type IncomingMessage, request as sendRequest, type RequestListener } from "node:http";
import { once } from "node:events";
import express from "express";
import fastify from "fastify";
import { toNodeHandler } from "srvx/node";
import { describe, expect, it } from "vitest";
import * as onExpress from "../../../src/sdk/adapters/express.ts";
import * as onFastify from "../../../src/sdk/adapters/fastify.ts";
import * as onFetch from "../../../src/sdk/adapters/fetch.ts";
import * as onNode from "../../../src/sdk/adapters/node.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { until } from "../../../harness/waiting.ts";

describe("the body of an idempotent request", () => {
  const raw = '{ "amount" : 5 }';

  it("is available to the handler, with or without a body parser", async () => {
    await using s = await startIdempotentServer();
    const { keyrack } = s.r;
    const bodies: unknown[] = [];
    const app = express();
    app.post(
      "/bare",
      onExpress.protect(keyrack),
      onExpress.idempotent(
        keyrack,
        (req: express.Request, res: express.Response) => void res.json(bodies.push(req.body)),
      ),
    );
    app.use(express.json());
    app.post(
      "/parsed",
      onExpress.protect(keyrack),
      onExpress.idempotent(
        keyrack,
        (req: express.Request, res: express.Response) => void res.json(bodies.push(req.body)),
      ),
    );
    const url = await s.serve(app);
    for (const path of ["/bare", "/parsed"]) await fetch(url + path, { method: "POST", headers: s.headers, body: raw });
    expect(bodies).toEqual([{ amount: 5 }, { amount: 5 }]);
    // Without the raw bytes, requests are compared by their canonical JSON.
    const reformatted = await fetch(`${url}/parsed`, { method: "POST", headers: s.headers, body: '{"amount":5}' });
    expect(reformatted.headers.get("idempotent-replayed")).toBe("true");
    const bare = await fetch(`${url}/bare`, { method: "POST", headers: s.headers, body: '{"amount":5}' });
    expect(bare.status).toBe(422);
  });

  it("is compared by its bytes on fastify where rawBody exists", async () => {
    await using s = await startIdempotentServer();
    const app = fastify();
    app.addContentTypeParser("application/json", { parseAs: "string" }, (request, text, done) => {
      Object.assign(request, { rawBody: text });
      done(null, JSON.parse(String(text)));
    });
    app.post(
      "/",
      { preHandler: onFastify.protect(s.r.keyrack) },
      onFastify.idempotent(s.r.keyrack, async () => "ok"),
    );
    const send = (payload: string) => app.inject({ method: "POST", url: "/", headers: s.headers, payload });
    expect((await send(raw)).body).toBe("ok");
    expect((await send(raw)).headers["idempotent-replayed"]).toBe("true");
    expect((await send('{"amount":5}')).statusCode).toBe(422);
    await app.close();
  });

  it("over a megabyte is rejected with 413 on node:http, and the handler does not run", async () => {
    await using s = await startIdempotentServer();
    let ran = false;
    const handler: onNode.Handler = (_req, res) => {
      ran = true;
      res.end();
    };
    const url = await s.serve(onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler)));
    const sending = sendRequest(url, { method: "POST", headers: s.headers });
    sending.on("error", () => {});
    sending.end(Buffer.alloc(3 << 20, 32));
    const [response] = (await once(sending, "response")) as [IncomingMessage];
    expect([response.statusCode, ran]).toEqual([413, false]);
  });

  it("over a megabyte is rejected with 413 on fetch, and the handler does not run", async () => {
    await using s = await startIdempotentServer();
    let ran = false;
    const handler: onFetch.Handler = () => {
      ran = true;
      return new Response("ran");
    };
    const route = onFetch.protect(s.r.keyrack, {}, onFetch.idempotent(s.r.keyrack, handler));
    const url = await s.serve(toNodeHandler((request: Request) => route(request)) as RequestListener);
    const sending = sendRequest(url, { method: "POST", headers: s.headers });
    sending.on("error", () => {});
    sending.end(Buffer.alloc(3 << 20, 32));
    const [response] = (await once(sending, "response")) as [IncomingMessage];
    expect([response.statusCode, ran, s.verbs()]).toEqual([413, false, []]);
  });

  it("that ends early does not reject on node:http, where a rejection ends the process, and the handler does not run", async () => {
    await using s = await startIdempotentServer();
    let ran = false;
    let received = false;
    const outcomes: unknown[] = [];
    const handler: onNode.Handler = () => {
      ran = true;
    };
    const listener = onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler));
    const url = await s.serve((req, res) => {
      received = true;
      listener(req, res).then(
        () => outcomes.push("resolved"),
        (error: unknown) => outcomes.push(error),
      );
    });
    const leaving = sendRequest(url, { method: "POST", headers: { ...s.headers, "content-length": "100" } });
    leaving.on("error", () => {});
    leaving.write("half");
    await until(() => received);
    leaving.destroy();
    await until(() => outcomes.length > 0);
    expect([outcomes, ran, s.verbs()]).toEqual([["resolved"], false, []]);
  });
});
