// Idempotent handlers that stream their response, fail midway, or lose their client.

import { request as sendRequest, type RequestListener } from "node:http";
import { Hono } from "hono";
import { toNodeHandler } from "srvx/node";
import { describe, expect, it } from "vitest";
import * as onFetch from "../../../src/sdk/adapters/fetch.ts";
import * as onHono from "../../../src/sdk/adapters/hono.ts";
import * as onNode from "../../../src/sdk/adapters/node.ts";
import { startIdempotentServer } from "../../../harness/sdk/idempotent-server.ts";
import { patientPorts } from "../../../harness/sdk/ports.ts";
import { pace, turns, until } from "../../../harness/waiting.ts";
import type { Ports } from "../../../src/sdk/runtime.ts";

describe("a handler that streams", () => {
  it("on node:http reaches the client chunk by chunk and is replayed completely", async () => {
    await using s = await startIdempotentServer();
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
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
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

  it("on fetch and hono is replayed completely from a ReadableStream", async () => {
    const stream = () =>
      new ReadableStream({
        start(controller) {
          for (const part of ["one ", "two ", "three"]) controller.enqueue(new TextEncoder().encode(part));
          controller.close();
        },
      });
    for (const kind of ["fetch", "hono"]) {
      await using s = await startIdempotentServer();
      const { keyrack } = s.instance;
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
        const response = await fetch(url, { method: "POST", headers: s.headers });
        expect([kind, await response.text()]).toEqual([kind, "one two three"]);
        expect(response.headers.get("idempotent-replayed")).toBe(i === 0 ? null : "true");
      }
    }
  });

  it("releases its claim when it throws midway", async () => {
    await using s = await startIdempotentServer();
    const handler: onNode.Handler = async (_req, res) => {
      res.write("half");
      throw new Error("failed midway");
    };
    const protectedHandler = onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler));
    const url = await s.serve((req, res) => void protectedHandler(req, res).catch(() => res.destroy()));
    await expect(
      fetch(url, { method: "POST", headers: s.headers }).then((response) => response.text()),
    ).rejects.toThrow(/terminated|aborted|failed/);
    await until(() => s.verbs().includes("release"));
    expect(s.verbs()).not.toContain("complete");
  });

  it("releases its claim on fetch when its source fails", async () => {
    await using s = await startIdempotentServer();
    const broken = () => {
      let pulled = 0;
      return new ReadableStream({
        pull(controller) {
          if (pulled++ === 0) controller.enqueue(new TextEncoder().encode("half"));
          else controller.error(new Error("the source broke"));
        },
      });
    };
    const handler = onFetch.idempotent(s.instance.keyrack, () => new Response(broken()));
    const url = await s.serve(
      toNodeHandler(onFetch.protect(s.instance.keyrack, {}, handler)) as unknown as RequestListener,
    );
    await fetch(url, { method: "POST", headers: s.headers })
      .then((response) => response.text())
      .catch(() => {});
    await until(() => s.verbs().includes("release"));
    expect(s.verbs()).not.toContain("complete");
  });

  it("has its response stored even if the client disconnects first", async () => {
    await using s = await startIdempotentServer();
    let finish = () => {};
    const gate = new Promise<void>((resolve) => (finish = resolve));
    let started = false;
    const handler: onNode.Handler = async (_req, res) => {
      started = true;
      await gate;
      res.end("charged");
    };
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
    const leaving = sendRequest(url, { method: "POST", headers: s.headers });
    leaving.on("error", () => {});
    leaving.end();
    await until(() => started);
    leaving.destroy();
    finish();
    await until(() => s.verbs().includes("complete"));
    expect(await (await fetch(url, { method: "POST", headers: s.headers })).text()).toBe("charged");
  });

  it("is stored on fetch when the client disconnects between two chunks, and does not run again", async () => {
    await using s = await startIdempotentServer();
    let runs = 0;
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const send = (text: string) => void writer.write(new TextEncoder().encode(text)).catch(() => {});
    const handler = onFetch.idempotent(s.instance.keyrack, () => new Response(runs++ === 0 ? readable : "again"));
    const serve = onFetch.protect(s.instance.keyrack, {}, handler);
    const request = () => new Request("http://vendor.test/", { method: "POST", headers: s.headers });
    const reader = (await serve(request())).body?.getReader();
    send("one ");
    send("two ");
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("one ");
    await turns(); // the next chunk is being waited for
    const cancelled = reader?.cancel();
    send("three ");
    send("four");
    void writer.close().catch(() => {});
    await cancelled;
    await until(() => s.verbs().length > 1);
    const retry = await serve(request());
    expect([await retry.text(), retry.headers.get("idempotent-replayed"), runs]).toEqual([
      "one two three four",
      "true",
      1,
    ]);
    expect(s.verbs()).toEqual(["claim", "complete", "claim"]);
  });

  it("is still stored after close(), which does not keep the process alive", async () => {
    const real = patientPorts();
    let isClosed = false;
    const keepsAlive: number[] = [];
    const after: Ports["after"] = (ms, task, keeps) => {
      if (isClosed && keeps && ms < 5_000) keepsAlive.push(ms);
      return real.after(ms < 5_000 ? ms / 20 : ms, task, keeps); // the pauses, not the timeouts of calls
    };
    await using s = await startIdempotentServer({ ports: { ...real, after } });
    s.instance.plane.injectFault = ({ path }) => (path.endsWith("complete") ? { status: 503, text: "{}" } : undefined);
    const url = await s.serve(
      onNode.protect(
        s.instance.keyrack,
        {},
        onNode.idempotent(s.instance.keyrack, (_req, res) => void res.end("charged")),
      ),
    );
    const response = fetch(url, { method: "POST", headers: s.headers });
    await s.instance.plane.next("/v1/idempotency/complete");
    await s.instance.keyrack.close();
    isClosed = true;
    for (let i = 0; i < 2; i++) await s.instance.plane.next("/v1/idempotency/complete");
    s.instance.plane.injectFault = () => undefined;
    expect(await (await response).text()).toBe("charged");
    await until(() => s.verbs().includes("complete"));
    expect(s.verbs()).toEqual(["claim", "complete"]);
    expect(s.instance.lines.filter(({ message }) => message === "a response was not stored")).toEqual([]);
    expect(keepsAlive).toEqual([]);
  });

  it("lets its claim lapse when it ends without a response", async () => {
    await using s = await startIdempotentServer();
    s.instance.plane.idempotency.lockMs = 90;
    let runs = 0;
    const handler: onNode.Handler = () => void runs++;
    const url = await s.serve(onNode.protect(s.instance.keyrack, {}, onNode.idempotent(s.instance.keyrack, handler)));
    const leaving = sendRequest(url, { method: "POST", headers: s.headers });
    leaving.on("error", () => {});
    leaving.end();
    await until(() => runs === 1);
    leaving.destroy();
    const left = new AbortController();
    const retry = () => fetch(url, { method: "POST", headers: s.headers, signal: left.signal });
    // Repeated while the claim is held, which a heartbeat on its way as the client left may extend once more.
    const retried = (async () => {
      while ((await retry()).status === 409) await pace();
    })().catch(() => "aborted");
    await until(() => runs === 2);
    left.abort();
    expect(await retried).toBe("aborted");
    expect(s.verbs()).not.toContain("complete");
  });
});
