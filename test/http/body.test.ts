// Reading a request's body: one verdict, whatever follows it and however late it is read; the same for both lanes.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { readBody, StreamBody, type RequestBody } from "../../src/http/body/body.ts";
import { FastRequest } from "../../src/http/fast/request.ts";
import { turns, until } from "../../harness/waiting.ts";

type Received = { req: IncomingMessage; res: ServerResponse; body: RequestBody };
type Handler = (received: Received) => void;
type Lane = "the fast lane" | "plain node:http";

/** A server of one lane, and a raw connection to it. */
async function connected(lane: Lane, handler: Handler): Promise<Socket> {
  const server =
    lane === "the fast lane"
      ? createServer({ IncomingMessage: FastRequest, optimizeEmptyRequests: true }, (req, res) =>
          handler({ req, res, body: req }),
        )
      : createServer((req, res) => handler({ req, res, body: new StreamBody(req) }));
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

const limits = (bytes: number) => ({ bytes, structure: 10 });

/** Reads a body; the list holds every verdict that was given. */
function reading(body: RequestBody, max = 100) {
  const verdicts: unknown[] = [];
  readBody(
    body,
    limits(max),
    (bytes) => verdicts.push(bytes.toString()),
    (failure) => verdicts.push(failure.status),
  );
  return verdicts;
}

const head = (length: number) => `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n`;

/** Sends the parts one by one; the verdicts once the server has seen the end of the connection. */
async function sent(lane: Lane, parts: string[], max?: number): Promise<unknown[]> {
  const came = Promise.withResolvers<{ end: Socket; verdicts: unknown[] }>();
  const socket = await connected(lane, ({ req, body }) =>
    came.resolve({ end: req.socket, verdicts: reading(body, max) }),
  );
  for (const part of parts) {
    socket.write(part);
    await turns();
  }
  const { end, verdicts } = await came.promise;
  await until(() => verdicts.length > 0 || end.bytesRead === parts.join("").length);
  await turns(20); // a stream takes a few
  const gone = new Promise((resolve) => end.once("close", resolve)); // `once` would reject at the parse error before it
  socket.destroy();
  await gone;
  await turns();
  return verdicts;
}

for (const lane of ["the fast lane", "plain node:http"] as const) {
  describe(`a body on ${lane}`, () => {
    it("is one body however it is chunked, with its head or after it", async () => {
      expect(await sent(lane, [`${head(4)}abcd`])).toEqual(["abcd"]);
      expect(await sent(lane, [head(4), "ab", "cd"])).toEqual(["abcd"]);
      const chunked = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
      expect(await sent(lane, [`${chunked}2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n`])).toEqual(["abcd"]);
    });

    it("that is absent reads as an empty one", async () => {
      expect(await sent(lane, ["POST / HTTP/1.1\r\nhost: x\r\n\r\n"])).toEqual([""]);
      expect(await sent(lane, [head(0)])).toEqual([""]);
    });

    it("past its limit is refused once, however much follows and however it ends", async () => {
      expect(await sent(lane, [head(10), "ab", "ab", "ab", "ab", "ab"], 3)).toEqual([413]);
      expect(await sent(lane, [head(10), "ab", "ab", "ab"], 3)).toEqual([413]);
    });

    it("that nests too deep or has too much structure is refused before all of it arrives", async () => {
      expect(await sent(lane, [head(1_000), "[".repeat(20), "[".repeat(13)])).toEqual([400]);
      expect(await sent(lane, [head(1_000), "[1,2,3,4", ",5,6,7,8", ",9,10,11"])).toEqual([400]);
      expect(await sent(lane, [head(12), '"[[[[[[,\\"', ",,"])).toEqual(['"[[[[[[,\\",,']);
    });

    it("of a client that leaves half-way is refused; leaving after the whole body changes nothing", async () => {
      expect(await sent(lane, [head(4), "ab"])).toEqual([400]);
      expect(await sent(lane, [`${head(2)}ab`])).toEqual(["ab"]);
    });

    it("of a client that left before it is read is refused, not waited for", async () => {
      const left = Promise.withResolvers<RequestBody>();
      const socket = await connected(lane, ({ req, body }) => req.socket.once("close", () => left.resolve(body)));
      socket.write(`${head(4)}ab`);
      await turns();
      socket.destroy();
      expect(reading(await left.promise)).toEqual([400]);
    });

    it("that nothing reads applies back-pressure to its sender, and arrives whole when it is read", async () => {
      const long = "x".repeat(8 * 1024 * 1024);
      const came = Promise.withResolvers<Received>();
      const read = Promise.withResolvers<string>();
      const socket = await connected(lane, (received) => came.resolve(received));
      socket.write(head(long.length) + long);
      const { req, body } = await came.promise;
      await until(() => req.socket.isPaused());
      const buffered = req.socket.bytesRead;
      await turns(20);
      expect(req.socket.bytesRead).toBe(buffered);
      expect(buffered).toBeLessThan(1024 * 1024);
      readBody(body, limits(long.length), (bytes) => read.resolve(bytes.toString()), read.reject);
      expect((await read.promise) === long).toBe(true);
    });

    it("is not read after the response: half of a body never counts as a whole one", async () => {
      const answered = Promise.withResolvers<Received & { verdicts: unknown[] }>();
      const socket = await connected(lane, (received) => {
        const verdicts = reading(received.body);
        setImmediate(() => {
          received.body.discard();
          received.res.end();
          answered.resolve({ ...received, verdicts });
        });
      });
      socket.write(`${head(4)}ab`);
      const { req, body, verdicts } = await answered.promise;
      socket.write("cd");
      await until(() => req.complete);
      expect(verdicts).toEqual([]);
      expect(reading(body)).toEqual([400]);
    });

    it("is read whole and in order where requests are pipelined, also where one is answered unread", async () => {
      const seen: string[] = [];
      const socket = await connected(lane, ({ req, res, body }) => {
        if (req.url === "/unread") {
          res.end("unread");
          return;
        }
        readBody(
          body,
          limits(100),
          (bytes) => {
            seen.push(bytes.toString());
            res.end(`read ${bytes.toString()}`);
          },
          () => res.end("refused"),
        );
      });
      const one = (path: string, text: string) =>
        `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
      socket.write(one("/", "first") + one("/unread", "second") + one("/", "third") + one("/", ""));
      let text = "";
      for await (const bytes of socket) {
        text += String(bytes);
        if (text.split("HTTP/1.1 200").length === 5 && text.endsWith("read ")) break;
      }
      expect(seen).toEqual(["first", "third", ""]);
      expect(text.match(/unread|read [a-z]*/g)).toEqual(["read first", "unread", "read third", "read "]);
    });

    it("that is long and answered unread does not keep the next request from being read", async () => {
      const long = "x".repeat(2 * 1024 * 1024);
      const socket = await connected(lane, ({ req, res, body }) => {
        if (req.method === "PUT") void until(() => req.socket.isPaused()).then(() => res.end("unread"));
        else
          readBody(
            body,
            limits(100),
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
  });
}

it("the fast lane passes on a body that has arrived before readTo returns", async () => {
  const came = Promise.withResolvers<Received>();
  const socket = await connected("the fast lane", (received) => setImmediate(() => came.resolve(received)));
  socket.write(`${head(4)}abcd`);
  const { req, body } = await came.promise;
  await until(() => req.complete);
  expect(reading(body)).toEqual(["abcd"]);
});

it("room is asked for after each piece, also of one that was refused", () => {
  const asked: number[] = [];
  const keepPart = (_chunk: number, bytes: number): undefined => void asked.push(bytes);
  const refused: number[] = [];
  const pieces = ["{", "[".repeat(40), "[[[["];
  const body: RequestBody = {
    readTo: (sink) => pieces.forEach((piece) => sink.chunk(Buffer.from(piece))),
    discard() {},
  };
  readBody(
    body,
    limits(100),
    () => expect.fail(),
    (failure) => refused.push(failure.status),
    { keepPart, release() {} },
  );
  expect([asked, refused]).toEqual([[1, 1], [400]]);
});

for (const lane of ["the fast lane", "plain node:http"] as const) {
  it(`a body that is dropped while it arrives gives its room back, without a verdict, with ${lane}`, async () => {
    const came = Promise.withResolvers<Received>();
    const socket = await connected(lane, came.resolve);
    socket.write(`${head(50)}part`);
    const { body } = await came.promise;
    let [released, asked] = [0, 0];
    const room = { keepPart: () => void asked++, release: () => void released++ };
    const verdict = (): never => expect.fail();
    readBody(body, limits(100), verdict, verdict, room);
    await until(() => asked === 1);
    body.discard();
    expect(released).toBe(1);
    socket.write("more");
    await turns();
    expect(asked).toBe(1);
  });
}
