// Errors in and around an idempotent handler release its claim.

import express from "express";
import { describe, expect, it } from "vitest";
import * as onExpress from "../../../src/sdk/adapters/express.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";

describe("a response that cannot be sent", () => {
  it("throws in the handler, where it is caught, and releases the claim", async () => {
    await using s = await startIdempotentServer();
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
      onExpress.protect(s.r.keyrack),
      onExpress.idempotent(s.r.keyrack, (_req, res: express.Response) => {
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
  it("after the response does not change it: the error handler sees that it was sent", async () => {
    await using s = await startIdempotentServer();
    const app = express();
    app.post(
      "/",
      onExpress.protect(s.r.keyrack),
      onExpress.idempotent(s.r.keyrack, (_req, res: express.Response) => {
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
