// Errors in and around an idempotent handler release its claim; what follows its response changes nothing.

import type { RequestListener } from "node:http";
import express from "express";
import { Hono } from "hono";
import { toNodeHandler } from "srvx/node";
import { describe, expect, it } from "vitest";
import * as onExpress from "../../../src/sdk/adapters/express.ts";
import * as onHono from "../../../src/sdk/adapters/hono.ts";
import * as onNode from "../../../src/sdk/adapters/node.ts";
import type { Keyrack } from "../../../src/sdk/instance.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { until } from "../../../harness/waiting.ts";

describe("a response that cannot be sent", () => {
  it("throws in the handler, where it is caught, and releases the claim", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.instance.keyrack),
      onExpress.idempotent(s.instance.keyrack, (_req, res: express.Response) => void res.end({ no: "body" })),
    );
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).send("failed");
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("failed");
    expect(s.verbs()).toEqual(["claim", "release"]);
  });

  it("throws in the handler after the response too, and does not change what is stored", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    const errors: unknown[] = [];
    const attempt = (send: () => void) => {
      try {
        send();
      } catch (error) {
        errors.push((error as NodeJS.ErrnoException).code);
      }
    };
    app.post(
      "/",
      onExpress.protect(s.instance.keyrack),
      onExpress.idempotent(s.instance.keyrack, (_req, res: express.Response) => {
        res.end("ok");
        for (const chunk of [undefined, null, { no: "chunk" }]) attempt(() => void res.write(chunk));
        attempt(() => void res.end({ no: "body" }));
      }),
    );
    const url = await s.serve(app);
    for (let i = 0; i < 2; i++)
      expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("ok");
    const invalid = "ERR_INVALID_ARG_TYPE";
    expect(errors).toEqual([invalid, "ERR_STREAM_NULL_VALUES", invalid, invalid]);
    expect(s.verbs()).toEqual(["claim", "complete", "claim"]);
  });

  it("is dropped when another middleware has responded before the verdict", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    const errors: unknown[] = [];
    let judge = () => {};
    const getKey = () => new Promise<null>((resolve) => (judge = () => resolve(null)));
    app.use((_req, res, next) => (next(), void res.status(503).send("too late")));
    app.get("/", onExpress.protect(s.instance.keyrack, { getKey }), () => {});
    const failed: express.ErrorRequestHandler = (error, _req, _res, _next) => void errors.push(error);
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url)).text()).toBe("too late");
    judge();
    await new Promise((resolve) => setImmediate(resolve));
    expect(errors).toEqual([]);
  });
});

describe("a handler that continues after its response", () => {
  const respond = (res: express.Response) => res.status(201).json({ id: 1 });
  const handlers: Record<string, Parameters<typeof onExpress.idempotent>[1]> = {
    "by next()": (_req, res, next) => (respond(res as express.Response), next()),
    "by a second response, unless one is sent": (_req, res) => {
      respond(res as express.Response);
      if (!res.headersSent) res.writeHead(503).end("timed out");
    },
    "by a second response, unless one has ended": (_req, res) => {
      respond(res as express.Response);
      if (!res.writableEnded) res.writeHead(503).end("timed out");
    },
    "by another write and end": (_req, res) => {
      respond(res as express.Response);
      res.write("more");
      res.end("more", () => {});
    },
  };
  for (const [how, handler] of Object.entries(handlers)) {
    it(`${how} sends and stores only the first`, async () => {
      await using s = await startIdempotentServer();
      const app = express();
      app.post("/", onExpress.protect(s.instance.keyrack), onExpress.idempotent(s.instance.keyrack, handler));
      const url = await s.serve(app);
      for (let i = 0; i < 2; i++) {
        const response = await fetch(url, { method: "POST", headers: s.headers });
        expect([response.status, await response.text()]).toEqual([201, '{"id":1}']);
      }
      expect(s.verbs()).toEqual(["claim", "complete", "claim"]);
    });
  }

  it("gets the callback of a late write or end", async () => {
    await using s = await startIdempotentServer();
    const called: string[] = [];
    const handler: onNode.Handler = (_req, res) => {
      res.end("ok");
      res.write("more", () => called.push("write"));
      res.end(() => called.push("end"));
    };
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("ok");
    await until(() => called.length === 2);
    expect(called).toEqual(["write", "end"]);
  });
});

describe("the head of a claimed response", () => {
  it("is the one that Node makes without a claim", async () => {
    await using s = await startIdempotentServer();
    const bodies = ["", "grüße", "R3LDvMOfZQ=="] as const;
    const handler: onNode.Handler = (req, res) => {
      const [status, body] = (req.url ?? "").slice(1).split("/").map(Number);
      res.statusCode = status ?? 200;
      res.end(bodies[body ?? 0], body === 2 ? "base64" : "utf8");
    };
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
    const { "idempotency-key": _none, ...unclaimed } = s.headers;
    const head = async (path: string, method: string, headers: Record<string, string>) => {
      const response = await fetch(url + path, { method, headers });
      await response.arrayBuffer();
      return ["content-length", "transfer-encoding"].map((name) => response.headers.get(name));
    };
    for (const method of ["POST", "HEAD"]) {
      for (const path of ["/200/0", "/200/1", "/200/2", "/201/2", "/204/0", "/205/0", "/304/0"])
        expect([method, path, await head(path, method, s.headers)]).toEqual([
          method,
          path,
          await head(path, method, unclaimed),
        ]);
    }
  });
});

describe("an express error", () => {
  it("after the response does not change it: the error handler sees that it was sent", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.instance.keyrack),
      onExpress.idempotent(s.instance.keyrack, (_req, res: express.Response) => {
        res.status(201).send("paid");
        throw new Error("too late");
      }),
    );
    const sent: boolean[] = [];
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void sent.push(res.headersSent);
    app.use(failed);
    const url = await s.serve(app);
    for (let i = 0; i < 2; i++) {
      const response = await fetch(url, { method: "POST", headers: s.headers });
      expect([response.status, await response.text()]).toEqual([201, "paid"]);
    }
    expect([sent, s.verbs()]).toEqual([[true], ["claim", "complete", "claim"]]);
  });

  it("passed to next releases the claim like a throw", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.instance.keyrack),
      onExpress.idempotent(s.instance.keyrack, (_req, _res, next) => next(new Error("no"))),
    );
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(500).send("failed");
    app.use(failed);
    const url = await s.serve(app);
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("failed");
    expect(s.verbs()).toEqual(["claim", "release"]);
  });
});

describe("a handler that calls next()", () => {
  type Behind = (run: number) => { status: number };
  const kinds: Record<string, (keyrack: Keyrack, behind: Behind) => RequestListener> = {
    express: (keyrack, behind) => {
      let runs = 0;
      const app = express();
      const delegate = onExpress.idempotent(keyrack, (_req, _res, next) => next());
      app.post("/", onExpress.protect(keyrack), delegate, async (_req, res) => {
        const run = ++runs;
        res.status(behind(run).status).send(`run ${run}`);
      });
      const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => void res.status(502).send("failed");
      return app.use(failed);
    },
    hono: (keyrack, behind) => {
      let runs = 0;
      const app = new Hono();
      const delegate = onHono.idempotent(keyrack, (_c, next) => next());
      app.post("/", onHono.protect(keyrack), delegate, async () => {
        const run = ++runs;
        return new Response(`run ${run}`, { status: behind(run).status });
      });
      app.onError((_error, c) => c.text("failed", 502));
      return toNodeHandler((request: Request) => app.fetch(request)) as RequestListener;
    },
  };
  for (const [kind, make] of Object.entries(kinds)) {
    const respondTo = async (behind: Behind) => {
      await using s = await startIdempotentServer();
      const url = await s.serve(make(s.instance.keyrack, behind));
      const responses: unknown[] = [];
      for (let i = 0; i < 3; i++) {
        const response = await fetch(url, { method: "POST", headers: s.headers });
        responses.push([response.status, await response.text(), response.headers.get("idempotent-replayed")]);
      }
      return { responses, verbs: s.verbs() };
    };

    it(`on ${kind} has the response of the next one stored, even if it is an error`, async () => {
      const { responses, verbs } = await respondTo(() => ({ status: 402 }));
      expect(responses).toEqual([
        [402, "run 1", null],
        [402, "run 1", "true"],
        [402, "run 1", "true"],
      ]);
      expect(verbs).toEqual(["claim", "complete", "claim", "claim"]);
    });

    it(`on ${kind} releases the claim when the next one throws, so that a retry runs`, async () => {
      const { responses, verbs } = await respondTo((run) => {
        if (run === 1) throw new Error("the bank is away");
        return { status: 201 };
      });
      expect(responses).toEqual([
        [502, "failed", null],
        [201, "run 2", null],
        [201, "run 2", "true"],
      ]);
      expect(verbs).toEqual(["claim", "release", "claim", "complete", "claim"]);
    });
  }
});

describe("a wrong argument of idempotent", () => {
  it.each([
    ["options before the handler", [{ ttlMs: 60_000 }, () => {}], /takes the handler as its second argument/],
    ["no handler", [], /takes the handler/],
    ["null as options", [() => {}, null], /takes an object of options/],
  ])("throws when it is called: %s", async (_what, rest, message) => {
    await using s = await startIdempotentServer();
    for (const { idempotent } of [onExpress, onHono, onNode])
      expect(() => (idempotent as (...args: unknown[]) => void)(s.instance.keyrack, ...rest)).toThrow(message);
  });
});
