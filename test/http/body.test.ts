// Reading a request's body: one verdict, whatever comes after it, and however late it is asked for.
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { readBody } from "../../src/http/body.ts";
import { FastRequest } from "../../src/http/fast/request.ts";

type Handler = (req: FastRequest, res: ServerResponse) => void;

/** A server whose requests are ours, and a raw connection to it. */
async function connected(handler: Handler): Promise<Socket> {
  const server = createServer({ IncomingMessage: FastRequest, optimizeEmptyRequests: true }, handler);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  onTestFinished(() => {
    socket.destroy();
    server.close();
    server.closeAllConnections();
  });
  return socket;
}

/** Reads a body to a list of verdicts; the list says what was told, and how often. */
function reading(request: FastRequest, max = 100) {
  const verdicts: unknown[] = [];
  readBody(
    request,
    max,
    (bytes) => verdicts.push(bytes.toString()),
    (failure) => verdicts.push(failure.status),
  );
  return verdicts;
}

const head = (length: number) => `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n`;
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Sends the parts one by one; answers the verdicts once the server has seen the connection's end. */
async function sent(parts: string[], max?: number): Promise<unknown[]> {
  let verdicts: unknown[] = [];
  const gone = Promise.withResolvers<unknown>();
  const socket = await connected((req) => {
    verdicts = reading(req, max);
    req.socket.once("close", gone.resolve);
  });
  for (const part of parts) {
    socket.write(part);
    await turn();
  }
  socket.destroy();
  await gone.promise;
  return verdicts;
}

it("a body in pieces is one body, with its head or without", async () => {
  expect(await sent([`${head(4)}abcd`])).toEqual(["abcd"]);
  expect(await sent([head(4), "ab", "cd"])).toEqual(["abcd"]);
  expect(
    await sent(["POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"]),
  ).toEqual(["abcd"]);
});

it("no body is an empty one", async () => {
  expect(await sent(["POST / HTTP/1.1\r\nhost: x\r\n\r\n"])).toEqual([""]);
  expect(await sent([head(0)])).toEqual([""]);
});

it("a body past its limit is refused once, however much follows and however it ends", async () => {
  expect(await sent([head(10), "ab", "ab", "ab", "ab", "ab"], 3)).toEqual([413]);
  expect(await sent([head(10), "ab", "ab", "ab"], 3)).toEqual([413]);
});

it("a client who leaves half-way is refused; one who leaves after the whole body changes nothing", async () => {
  expect(await sent([head(4), "ab"])).toEqual([400]);
  expect(await sent([`${head(2)}ab`])).toEqual(["ab"]);
});

it("a client who left before the body is asked for is refused, not waited for", async () => {
  const left = Promise.withResolvers<FastRequest>();
  const socket = await connected((req) => req.socket.once("close", () => left.resolve(req)));
  socket.write(`${head(4)}ab`);
  await turn();
  socket.destroy();
  expect(reading(await left.promise)).toEqual([400]);
});

it("a whole body that waited is told at once", async () => {
  const came = Promise.withResolvers<FastRequest>();
  const socket = await connected((req) => setImmediate(() => came.resolve(req)));
  socket.write(`${head(4)}abcd`);
  const request = await came.promise;
  while (!request.complete) await turn();
  expect(reading(request)).toEqual(["abcd"]);
});

it("a long body that nobody asks for holds its sender up, and comes whole when it is asked for", async () => {
  const long = "x".repeat(8 * 1024 * 1024);
  const asked = Promise.withResolvers<FastRequest>();
  const answered = Promise.withResolvers<string>();
  const socket = await connected((req) => asked.resolve(req));
  socket.write(head(long.length) + long);
  const request = await asked.promise;
  while (!request.socket.isPaused()) await turn();
  const held = request.socket.bytesRead;
  for (let i = 0; i < 20; i++) await turn();
  expect(request.socket.bytesRead).toBe(held);
  expect(held).toBeLessThan(1024 * 1024);
  readBody(request, long.length, (bytes) => answered.resolve(bytes.toString()), answered.reject);
  expect((await answered.promise) === long).toBe(true);
});

it("a request that was answered is not read any more: no half of a body is told as a whole one", async () => {
  const answered = Promise.withResolvers<{ request: FastRequest; verdicts: unknown[] }>();
  const socket = await connected((req, res) => {
    const verdicts = reading(req);
    setImmediate(() => {
      req.forget();
      res.end();
      answered.resolve({ request: req, verdicts });
    });
  });
  socket.write(`${head(4)}ab`);
  const { request, verdicts } = await answered.promise;
  socket.write("cd");
  while (!request.complete) await turn();
  expect(verdicts).toEqual([]);
  expect(reading(request)).toEqual([400]);
});

it("requests that came at once are each read whole, in order, also where one is answered unread", async () => {
  const seen: string[] = [];
  const socket = await connected((req, res) => {
    if (req.url === "/unread") {
      res.end("unread");
      return;
    }
    readBody(
      req,
      100,
      (bytes) => {
        seen.push(bytes.toString());
        res.end(`read ${bytes.toString()}`);
      },
      () => res.end("refused"),
    );
  });
  const one = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  socket.write(one("/", "first") + one("/unread", "second") + one("/", "third") + one("/", ""));
  let text = "";
  for await (const bytes of socket) {
    text += String(bytes);
    if (text.split("HTTP/1.1 200").length === 5 && text.endsWith("read ")) break;
  }
  expect(seen).toEqual(["first", "third", ""]);
  expect(text.match(/unread|read [a-z]*/g)).toEqual(["read first", "unread", "read third", "read "]);
});

it("a long body that is answered unread does not keep the next request from being read", async () => {
  const long = "x".repeat(2 * 1024 * 1024);
  const socket = await connected((req, res) => {
    if (req.method === "PUT") setTimeout(() => res.end("unread"), 20);
    else
      readBody(
        req,
        100,
        (bytes) => res.end(`read ${bytes.toString()}`),
        () => res.end("refused"),
      );
  });
  socket.write(`PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: ${long.length}\r\n\r\n${long}${head(4)}next`);
  let text = "";
  for await (const bytes of socket) {
    text += String(bytes);
    if (text.endsWith("read next")) break;
  }
  expect(text).toContain("unread");
});
