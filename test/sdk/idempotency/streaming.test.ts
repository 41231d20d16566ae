// Idempotent handlers that stream, break off, or lose their client; and where the request's body may be.

import { createServer, type IncomingMessage, request as ask, type RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
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
import { waitUntil } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

async function setup() {
  const r = await startTestKeyrack();
  const { key } = r.plane.mint();
  await waitUntil(() => r.keyrack.verify(key).ok);
  const closers: (() => void)[] = [];
  return {
    r,
    headers: { authorization: `Bearer ${key}`, "idempotency-key": "k", "content-type": "application/json" },
    verbs: () => r.plane.idempotency.calls.map(({ verb }) => verb),
    async serve(listener: RequestListener): Promise<string> {
      const server = createServer(listener);
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      closers.push(() => server.close().closeAllConnections());
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    async [Symbol.asyncDispose]() {
      for (const close of closers) close();
      await r[Symbol.asyncDispose]();
    },
  };
}

describe("a handler that streams", () => {
  it("on node:http reaches the client chunk by chunk and is replayed whole", async () => {
    await using s = await setup();
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const handler: onNode.Handler = async (_req, res) => {
      res.writeHead(200, { "content-type": "text/plain" });
      res.write("one ");
      res.write(Buffer.from("two "));
      await gate;
      res.write("dGhyZWU=", "base64");
      res.end(" four");
    };
    const url = await s.serve(onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler)));
    const first = await fetch(url, { method: "POST", headers: s.headers });
    const reader = first.body?.getReader();
    const seen = await reader?.read();
    expect(Buffer.from(seen?.value ?? []).toString()).toMatch(/^one/);
    expect(s.verbs()).toEqual(["claim"]);
    release();
    while (!(await reader?.read())?.done);
    const again = await fetch(url, { method: "POST", headers: s.headers });
    expect(await again.text()).toBe("one two three four");
    expect(again.headers.get("content-type")).toBe("text/plain");
  });

  it("on fetch and hono does the same with a ReadableStream", async () => {
    const stream = () =>
      new ReadableStream({
        start(controller) {
          for (const part of ["one ", "two ", "three"]) controller.enqueue(new TextEncoder().encode(part));
          controller.close();
        },
      });
    for (const kind of ["fetch", "hono"]) {
      await using s = await setup();
      const { keyrack } = s.r;
      const hono = new Hono().post(
        "/",
        onHono.protect(keyrack),
        onHono.idempotent(keyrack, () => new Response(stream())),
      );
      const plain = onFetch.protect(
        keyrack,
        {},
        onFetch.idempotent(keyrack, () => new Response(stream())),
      );
      const serve = kind === "hono" ? (request: Request) => hono.fetch(request) : plain;
      const url = await s.serve(toNodeHandler(serve) as unknown as RequestListener);
      for (let i = 0; i < 2; i++) {
        const answer = await fetch(url, { method: "POST", headers: s.headers });
        expect([kind, await answer.text()]).toEqual([kind, "one two three"]);
        expect(answer.headers.get("idempotent-replayed")).toBe(i === 0 ? null : "true");
      }
    }
  });

  it("that throws half way releases its claim", async () => {
    await using s = await setup();
    const handler: onNode.Handler = async (_req, res) => {
      res.write("half");
      throw new Error("the other half is lost");
    };
    const protectedHandler = onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler));
    const url = await s.serve((req, res) => void protectedHandler(req, res).catch(() => res.destroy()));
    await expect(fetch(url, { method: "POST", headers: s.headers }).then((answer) => answer.text())).rejects.toThrow(
      /terminated|aborted|failed/,
    );
    await waitUntil(() => s.verbs().includes("release"));
    expect(s.verbs()).not.toContain("complete");
  });

  it("whose source breaks releases its claim on fetch too", async () => {
    await using s = await setup();
    const broken = () => {
      let pulled = 0;
      return new ReadableStream({
        pull(controller) {
          if (pulled++ === 0) controller.enqueue(new TextEncoder().encode("half"));
          else controller.error(new Error("the source broke"));
        },
      });
    };
    const handler = onFetch.idempotent(s.r.keyrack, () => new Response(broken()));
    const url = await s.serve(toNodeHandler(onFetch.protect(s.r.keyrack, {}, handler)) as unknown as RequestListener);
    await fetch(url, { method: "POST", headers: s.headers })
      .then((answer) => answer.text())
      .catch(() => {});
    await waitUntil(() => s.verbs().includes("release"));
    expect(s.verbs()).not.toContain("complete");
  });

  it("still has its answer stored when the client has left before it", async () => {
    await using s = await setup();
    let finish = () => {};
    const held = new Promise<void>((resolve) => (finish = resolve));
    let started = false;
    const handler: onNode.Handler = async (_req, res) => {
      started = true;
      await held;
      res.end("charged");
    };
    const url = await s.serve(onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler)));
    const leaving = ask(url, { method: "POST", headers: s.headers });
    leaving.on("error", () => {});
    leaving.end();
    await waitUntil(() => started);
    leaving.destroy();
    finish();
    await waitUntil(() => s.verbs().includes("complete"));
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("charged");
  });

  it("lets its claim lapse when it ends without any answer", async () => {
    await using s = await setup();
    s.r.plane.idempotency.lockMs = 90;
    let started = false;
    const handler: onNode.Handler = () => {
      started = true;
    };
    const url = await s.serve(onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler)));
    const leaving = ask(url, { method: "POST", headers: s.headers });
    leaving.on("error", () => {});
    leaving.end();
    await waitUntil(() => started);
    leaving.destroy();
    const [record] = s.r.plane.idempotency.records.values();
    await waitUntil(() => Date.now() > (record?.until ?? 0));
    expect(
      (await fetch(url, { method: "POST", headers: s.headers, signal: AbortSignal.timeout(200) }).catch(() => null))
        ?.status,
    ).toBe(undefined);
    expect(s.verbs().filter((verb) => verb === "claim").length).toBe(2);
    expect(s.verbs()).not.toContain("complete");
  });
});

describe("the body of an idempotent request", () => {
  const raw = '{ "amount" : 5 }';

  it("is still there for the handler, whoever read it first", async () => {
    await using s = await setup();
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
    // With its bytes gone, a request is told from another by its canonical JSON.
    const respelt = await fetch(`${url}/parsed`, { method: "POST", headers: s.headers, body: '{"amount":5}' });
    expect(respelt.headers.get("idempotent-replayed")).toBe("true");
    const bare = await fetch(`${url}/bare`, { method: "POST", headers: s.headers, body: '{"amount":5}' });
    expect(bare.status).toBe(422);
  });

  it("is compared by its bytes on fastify where rawBody is kept", async () => {
    await using s = await setup();
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

  it("past a megabyte is 413 where nobody parsed it, and nothing runs", async () => {
    await using s = await setup();
    let ran = false;
    const handler: onNode.Handler = (_req, res) => {
      ran = true;
      res.end();
    };
    const url = await s.serve(onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler)));
    const sending = ask(url, { method: "POST", headers: s.headers });
    sending.on("error", () => {});
    sending.end(Buffer.alloc(3 << 20, 32));
    const [answer] = (await once(sending, "response")) as [IncomingMessage];
    expect([answer.statusCode, ran]).toEqual([413, false]);
  });

  it("past a megabyte is 413 on fetch too, and nothing runs", async () => {
    await using s = await setup();
    let ran = false;
    const handler: onFetch.Handler = () => {
      ran = true;
      return new Response("ran");
    };
    const route = onFetch.protect(s.r.keyrack, {}, onFetch.idempotent(s.r.keyrack, handler));
    const url = await s.serve(toNodeHandler((request: Request) => route(request)) as RequestListener);
    const sending = ask(url, { method: "POST", headers: s.headers });
    sending.on("error", () => {});
    sending.end(Buffer.alloc(3 << 20, 32));
    const [answer] = (await once(sending, "response")) as [IncomingMessage];
    expect([answer.statusCode, ran, s.verbs()]).toEqual([413, false, []]);
  });

  it("that breaks off is no failure on node:http, where a rejection ends the process, and nothing runs", async () => {
    await using s = await setup();
    let ran = false;
    let asked = false;
    const outcomes: unknown[] = [];
    const handler: onNode.Handler = () => {
      ran = true;
    };
    const listener = onNode.protect(s.r.keyrack, {}, onNode.idempotent(s.r.keyrack, handler));
    const url = await s.serve((req, res) => {
      asked = true;
      listener(req, res).then(
        () => outcomes.push("answered"),
        (error: unknown) => outcomes.push(error),
      );
    });
    const leaving = ask(url, { method: "POST", headers: { ...s.headers, "content-length": "100" } });
    leaving.on("error", () => {});
    leaving.write("half");
    await waitUntil(() => asked);
    leaving.destroy();
    await waitUntil(() => outcomes.length > 0);
    expect([outcomes, ran, s.verbs()]).toEqual([["answered"], false, []]);
  });
});

describe("an answer that cannot be sent", () => {
  it("is the handler's own error, not one that nobody catches, and releases the claim", async () => {
    await using s = await setup();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.r.keyrack),
      onExpress.idempotent(s.r.keyrack, (_req, res: express.Response) => void res.end({ no: "body" })),
    );
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).send("failed");
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("failed");
    expect(s.verbs()).toEqual(["claim", "release"]);
  });

  it("is left alone where somebody has answered before the verdict", async () => {
    await using s = await setup();
    const app = express();
    const errors: unknown[] = [];
    let judge = () => {};
    const getKey = () => new Promise<null>((resolve) => (judge = () => resolve(null)));
    app.use((_req, res, next) => (next(), void res.status(503).send("too late")));
    app.get("/", onExpress.protect(s.r.keyrack, { getKey }), () => {});
    const failed: express.ErrorRequestHandler = (error, _req, _res, _next) => void errors.push(error);
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url)).text()).toBe("too late");
    judge();
    await new Promise((resolve) => setImmediate(resolve));
    expect(errors).toEqual([]);
  });
});

describe("an express error", () => {
  it("passed to next releases the claim like a throw", async () => {
    await using s = await setup();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.r.keyrack),
      onExpress.idempotent(s.r.keyrack, (_req, _res, next) => next(new Error("no"))),
    );
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).send("failed");
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("failed");
    expect(s.verbs()).toEqual(["claim", "release"]);
  });
});
