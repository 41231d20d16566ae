// Malformed bytes on a connection that has a response outstanding.
import { EventEmitter, once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { LAST_EXCHANGE, type TrackedSocket } from "../../src/http/connections.ts";
import { refuseParserError } from "../../src/http/parser-errors.ts";

const ERROR = Object.assign(new Error("bad"), { code: "HPE_INVALID_METHOD" });

function connection(req: Partial<IncomingMessage>, res: Partial<ServerResponse>) {
  const socket = new PassThrough();
  Object.assign(socket, { destroySoon: () => socket.end() });
  const response = Object.assign(new EventEmitter(), res);
  const pair = { req: req as IncomingMessage, res: response as unknown as ServerResponse };
  const tracked = Object.assign(socket, { [LAST_EXCHANGE]: pair }) as unknown as TrackedSocket;
  return { socket, response, fail: () => refuseParserError(ERROR, tracked, async () => "refused") };
}

/** Everything that was written until the connection ended. */
async function sent(socket: PassThrough): Promise<string> {
  const chunks = await socket.toArray();
  return chunks.join("");
}

describe("a parser error", () => {
  it("after a complete request waits for its response, once however many packets follow", async () => {
    const { socket, response, fail } = connection({ complete: true }, { writableFinished: false });
    for (let i = 0; i < 50; i++) fail();
    expect([response.listenerCount("close"), socket.read()]).toEqual([1, null]);
    response.emit("close");
    await once(socket, "readable");
    expect(String(socket.read())).toBe("refused");
    await once(socket.resume(), "end");
  });

  it("in a body whose response has begun closes the connection: nothing is mixed into that response", () => {
    const { socket, fail } = connection({ complete: false }, { writableFinished: false, headersSent: true });
    fail();
    expect([socket.destroyed, socket.read()]).toEqual([true, null]);
  });

  it("in a body that was already answered ends the connection without a second response", async () => {
    const { socket, fail } = connection({ complete: false }, { writableFinished: true, headersSent: true });
    fail();
    expect(await sent(socket)).toBe("");
  });

  it("in a body that is answered while the refusal is built ends the connection without a second response", async () => {
    const { socket, response, fail } = connection({ complete: false }, { writableFinished: false, headersSent: false });
    fail();
    Object.assign(response, { headersSent: true });
    expect(await sent(socket)).toBe("");
  });

  it("in a body whose response has not begun is refused at once", async () => {
    const { socket, fail } = connection({ complete: false }, { writableFinished: false, headersSent: false });
    fail();
    await once(socket, "readable");
    expect(String(socket.read())).toBe("refused");
  });
});
