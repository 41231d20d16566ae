// Where idempotent() finds the body of a request, and what happens when it is too large or incomplete.

import { type IncomingMessage, request as sendRequest, type RequestListener } from "node:http";
import {
  connect,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { toNodeHandler } from "srvx/node";
import { describe, expect, it } from "vitest";
import * as onExpress from "../../../src/sdk/adapters/express.ts";
import * as onFastify from "../../../src/sdk/adapters/fastify.ts";
import * as onFetch from "../../../src/sdk/adapters/fetch.ts";
import * as onHono from "../../../src/sdk/adapters/hono.ts";
import * as onNode from "../../../src/sdk/adapters/node.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { until } from "../../../harness/waiting.ts";

describe("the body of an idempotent request", () => {
  const raw = '{ "amount" : 5 }';

  it("is available to the handler, with or without a body parser", async () => {
    await using s = await startIdempotentServer();
    const { keyrack } = s.instance;
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
      { preHandler: onFastify.protect(s.instance.keyrack) },
      onFastify.idempotent(s.instance.keyrack, async () => "ok"),
    );
    const send = (payload: string) => app.inject({ method: "POST", url: "/", headers: s.headers, payload });
    expect((await send(raw)).body).toBe("ok");
    expect((await send(raw)).headers["idempotent-replayed"]).toBe("true");
    expect((await send('{"amount":5}')).statusCode).toBe(422);
    await app.close();
  });

  it("that is not valid Unicode is rejected with 400 where only the parsed JSON is left", async () => {
    await using s = await startIdempotentServer();
    let ran = false;
    const handler = (_req: express.Request, res: express.Response) => void res.json((ran = true));
    const app = express().use(express.json());
    app.post("/", onExpress.protect(s.instance.keyrack), onExpress.idempotent(s.instance.keyrack, handler));
    const url = await s.serve(app);
    const response = await fetch(url, { method: "POST", headers: s.headers, body: '{"name":"\\ud800"}' });
    expect([response.status, response.headers.get("retry-after")]).toEqual([400, null]);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request" } });
    expect([ran, s.verbs(), s.instance.lines.filter(({ level }) => level === "warn")]).toEqual([false, [], []]);
  });

  it("that a middleware has consumed is a 503 and an error in the log: no retry could be compared with it", async () => {
    await using s = await startIdempotentServer();
    const { keyrack } = s.instance;
    let runs = 0;
    const consuming = onNode.protect(
      keyrack,
      {},
      onNode.idempotent(keyrack, (_req, res) => void res.end(String(++runs))),
    );
    const onRequest = onFetch.protect(
      keyrack,
      {},
      onFetch.idempotent(keyrack, () => new Response(String(++runs))),
    );
    const listeners: RequestListener[] = [
      (req, res) => void req.resume().once("end", () => void consuming(req, res)),
      toNodeHandler(async (request: Request) => (await request.text(), onRequest(request))) as RequestListener,
    ];
    for (const listener of listeners) {
      const url = await s.serve(listener);
      const sent = await fetch(url, { method: "POST", headers: s.headers, body: raw });
      expect([sent.status, runs, s.verbs()]).toEqual([503, 0, []]);
    }
    const error = { level: "error", message: "idempotent() cannot see the body of a request" };
    expect(s.instance.lines.filter(({ level }) => level === "error")).toMatchObject([error, error]);
    const empty = await fetch(await s.serve(listeners[0] as RequestListener), { method: "POST", headers: s.headers });
    expect([empty.status, await empty.text()]).toEqual([200, "1"]);
  });

  it("that no parser has read is read and compared, whatever express 4 has set", async () => {
    await using s = await startIdempotentServer();
    const bodies: unknown[] = [];
    const app = express();
    app.use((req, _res, next) => ((req.body = {}), next()));
    const handler = (req: express.Request, res: express.Response) => void res.json(bodies.push(String(req.body)));
    app.post("/", onExpress.protect(s.instance.keyrack), onExpress.idempotent(s.instance.keyrack, handler));
    const url = await s.serve(app);
    const send = (body: string) =>
      fetch(url, { method: "POST", headers: { ...s.headers, "content-type": "text/csv" }, body });
    expect((await send("amount=5")).status).toBe(200);
    expect((await send("amount=5")).headers.get("idempotent-replayed")).toBe("true");
    expect((await send("amount=5000")).status).toBe(422);
    expect(bodies).toEqual(["amount=5"]);
  });

  it("is a 503 where a parser of uploads leaves a part of it elsewhere", async () => {
    await using s = await startIdempotentServer();
    let runs = 0;
    const app = express();
    // As multer does: the fields are in the body, the files elsewhere.
    app.use((req, _res, next) => void req.once("end", () => ((req.body = { title: "a" }), next())).resume());
    const handler = (_req: express.Request, res: express.Response) => void res.json(++runs);
    app.post("/", onExpress.protect(s.instance.keyrack), onExpress.idempotent(s.instance.keyrack, handler));
    const uploads = fastify();
    // As @fastify/multipart does: the handler reads the stream.
    uploads.addContentTypeParser("multipart/form-data", (_request, _payload, done) => done(null));
    uploads.post(
      "/",
      { preHandler: onFastify.protect(s.instance.keyrack) },
      onFastify.idempotent(s.instance.keyrack, async () => ++runs),
    );
    await uploads.ready();
    const { "content-type": _json, ...headers } = s.headers;
    for (const listener of [app, uploads.routing.bind(uploads)]) {
      const url = await s.serve(listener);
      const body = new FormData();
      body.set("title", "a");
      body.set("file", new Blob(["AAA"]), "a.txt");
      const response = await fetch(url, { method: "POST", headers, body });
      expect([response.status, runs, s.verbs()]).toEqual([503, 0, []]);
    }
    const error = { level: "error", message: "idempotent() cannot see the body of a request" };
    expect(s.instance.lines.filter(({ level }) => level === "error")).toMatchObject([error, error]);
    await uploads.close();
  });

  it("that a middleware has consumed is a 503 on HTTP/2 too, where a body needs no header", async () => {
    await using s = await startIdempotentServer();
    const listener = onNode.protect(
      s.instance.keyrack,
      {},
      onNode.idempotent(s.instance.keyrack, (_req, res) => void res.end()),
    ) as unknown as (req: Http2ServerRequest, res: Http2ServerResponse) => void;
    const server = createHttp2Server((req, res) => void req.once("end", () => listener(req, res)).resume());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const statusOf = async (body: string) => {
      const sending = client.request({ ":method": "POST", ...s.headers }, { endStream: body === "" });
      if (body !== "") sending.end(body);
      const [headers] = (await once(sending, "response")) as [{ ":status"?: number }];
      await once(sending.resume(), "close");
      return headers[":status"];
    };
    expect([await statusOf("amount=5"), await statusOf("")]).toEqual([503, 200]);
    client.close();
    server.close();
  });

  it("that is missing is compared as empty on fastify", async () => {
    await using s = await startIdempotentServer();
    const app = fastify();
    app.delete(
      "/",
      { preHandler: onFastify.protect(s.instance.keyrack) },
      onFastify.idempotent(s.instance.keyrack, async () => "gone"),
    );
    const { "content-type": _json, ...headers } = s.headers;
    const send = () => app.inject({ method: "DELETE", url: "/", headers });
    expect((await send()).body).toBe("gone");
    expect((await send()).headers["idempotent-replayed"]).toBe("true");
    await app.close();
  });

  it("is compared by its fields on hono where a middleware has read it as a form", async () => {
    await using s = await startIdempotentServer();
    const app = new Hono();
    app.use(async (c, next) => {
      await (c.req.query("raw") === undefined ? c.req.formData() : c.req.raw.text()).catch(() => {});
      await next();
    });
    const handler = onHono.idempotent(s.instance.keyrack, async (c) => c.json([...(await c.req.formData()).keys()]));
    app.post("/", onHono.protect(s.instance.keyrack), handler);
    const { "content-type": _json, ...headers } = s.headers;
    const send = async (file: string, search = "") => {
      const body = new FormData();
      body.set("amount", "5");
      body.set("file", new Blob([file]), "a.txt");
      const response = await app.request(`/${search}`, { method: "POST", headers, body });
      await response.text();
      return [response.status, response.headers.get("idempotent-replayed")];
    };
    expect([await send("AAA"), await send("AAA")]).toEqual([
      [200, null],
      [200, "true"],
    ]);
    expect(await send("BBB")).toEqual([422, null]);
    // Read past hono, it is cached nowhere; and of a body that is no form, hono caches the error.
    expect(await send("AAA", "?raw")).toEqual([503, null]);
    const { status } = await app.request("/", { method: "POST", headers: s.headers, body: "{}" });
    expect(status).toBe(503);
  });

  it("over a megabyte is rejected with 413 on node:http, and the handler does not run", async () => {
    await using s = await startIdempotentServer();
    let ran = false;
    const handler: onNode.Handler = (_req, res) => {
      ran = true;
      res.end();
    };
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
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
    const route = onFetch.protect(s.instance.keyrack, {}, onFetch.idempotent(s.instance.keyrack, handler));
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
    const listener = onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler));
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
