// Bytes that are no request, on a connection on which something is still being answered.
import { EventEmitter, once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { LAST_EXCHANGE, type TrackedSocket } from "../../src/http/connections.ts";
import { refuseParserError } from "../../src/http/parser-errors.ts";

const ERROR = Object.assign(new Error("bad"), { code: "HPE_INVALID_METHOD" });

function connection(req: Partial<IncomingMessage>, res: Partial<ServerResponse>) {
  const socket = new PassThrough();
  const answer = Object.assign(new EventEmitter(), res);
  const pair = { req: req as IncomingMessage, res: answer as unknown as ServerResponse };
  const broken = Object.assign(socket, { [LAST_EXCHANGE]: pair }) as unknown as TrackedSocket;
  return { socket, answer, hear: () => refuseParserError(ERROR, broken, () => "refused") };
}

describe("a connection that breaks", () => {
  it("behind a whole request waits for its answer once, however many packets follow", async () => {
    const { socket, answer, hear } = connection({ complete: true }, { writableFinished: false });
    for (let i = 0; i < 50; i++) hear();
    expect([answer.listenerCount("close"), socket.read()]).toEqual([1, null]);
    answer.emit("close");
    expect(String(socket.read())).toBe("refused");
    await once(socket.resume(), "end");
  });

  it("in a body whose answer has begun is cut off: nothing of ours gets into that answer", () => {
    const { socket, hear } = connection({ complete: false }, { writableFinished: false, headersSent: true });
    hear();
    expect([socket.destroyed, socket.read()]).toEqual([true, null]);
  });

  it("in a body whose answer has not begun is refused at once", () => {
    const { socket, hear } = connection({ complete: false }, { writableFinished: false, headersSent: false });
    hear();
    expect(String(socket.read())).toBe("refused");
  });
});
