// Reading a request's body when there is nobody left to send it.
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { readBody } from "../../src/http/body.ts";

it("a client who left before the body is asked for is refused, not waited for", async () => {
  const left = new PassThrough().destroy() as unknown as IncomingMessage;
  await expect(readBody(left, 100)).rejects.toMatchObject({ status: 400 });
});
