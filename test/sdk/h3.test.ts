// The adapter for h3 with h3's own responses: under a claim they are sent and replayed as h3 sends them without one, and
// their status is the one that is reported.

import type { RequestListener } from "node:http";
import { type H3Event, H3, html, iterable, noContent, redirect } from "h3";
import { toNodeHandler } from "srvx/node";
import { describe, expect, it } from "vitest";
import { startIdempotentServer } from "../../harness/sdk/idempotent-server.ts";
import * as onH3 from "../../src/sdk/adapters/h3.ts";

const handlers: Record<string, (event: H3Event) => unknown> = {
  "no-content": () => noContent(),
  redirect: () => redirect("https://example.com/", 303),
  html: () => html`<b>paid</b>`,
  iterable: () => iterable(["one ", "two"]),
  "empty-204": (event) => ((event.res.status = 204), ""),
  bigint: () => 10n,
  bytes: () => new TextEncoder().encode("bytes"),
  buffer: () => new TextEncoder().encode("buffer").buffer,
  nothing: () => undefined,
  text: () => "text",
  json: (event) => ((event.res.status = 202), { status: "ok" }),
  field: () => ({ status: 404, note: "the order's own" }),
  response: () => Response.json({ status: "no" }, { status: 402 }),
};

/** Serves every handler behind protect and idempotent. */
async function setup() {
  const s = await startIdempotentServer();
  const app = new H3({ silent: true });
  let runs = 0;
  for (const [name, handler] of Object.entries(handlers)) {
    const counted = (event: H3Event) => (runs++, handler(event));
    app.post(`/${name}`, onH3.idempotent(s.instance.keyrack, counted), {
      middleware: [onH3.protect(s.instance.keyrack)],
    });
  }
  const url = await s.serve(toNodeHandler((request: Request) => app.fetch(request)) as unknown as RequestListener);
  const { "idempotency-key": _, ...plain } = s.headers;
  const send = async (name: string, idempotencyKey?: string) => {
    const headers = { ...plain, ...(idempotencyKey && { "idempotency-key": idempotencyKey }) };
    const response = await fetch(`${url}/${name}`, { method: "POST", headers, redirect: "manual" });
    const text = await response.text();
    // The server of h3 writes a space before the charset, and a type for an empty text.
    const type = text === "" ? null : (response.headers.get("content-type")?.replace("; ", ";") ?? null);
    const fields = ["location", "idempotent-replayed"].map((field) => response.headers.get(field));
    return { status: response.status, text, fields: [type, ...fields] };
  };
  return { ...s, send, runs: () => runs, [Symbol.asyncDispose]: () => s[Symbol.asyncDispose]() };
}

describe("idempotent on h3", () => {
  for (const name of Object.keys(handlers)) {
    it(`sends and replays ${name} as h3 does without a claim`, async () => {
      await using s = await setup();
      const plain = await s.send(name);
      expect(await s.send(name, "k")).toEqual(plain);
      expect(await s.send(name, "k")).toEqual({ ...plain, fields: [...plain.fields.slice(0, 2), "true"] });
      expect(s.runs()).toBe(2);
    });
  }
});

describe("protect on h3", () => {
  it("reports the status of the response, and never a field of the body", async () => {
    await using s = await setup();
    const statuses: number[] = [];
    for (const name of Object.keys(handlers)) statuses.push((await s.send(name)).status);
    await s.instance.keyrack.close();
    expect(s.instance.plane.ingest.events.map(({ path, status }) => [path.slice(1), status])).toEqual(
      Object.keys(handlers).map((name, at) => [name, statuses[at]]),
    );
    expect(new Set(statuses)).toEqual(new Set([200, 202, 204, 303, 402]));
  });
});
