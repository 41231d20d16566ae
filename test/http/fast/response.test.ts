// Response heads written as text, compared with what node writes for the same headers: all bytes but the date are
// equal.
import { createServer, type Server, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { KEEP_ALIVE_MS } from "../../../src/http/connections.ts";
import { ScannedConnections } from "../../../src/http/fast/connections.ts";
import { FastRequest } from "../../../src/http/fast/request.ts";
import { FastResponse, ResponseHead } from "../../../src/http/fast/response.ts";
import { HeaderTemplate } from "../../../src/http/response.ts";
import { unboundedLedger } from "../../../harness/ledgers.ts";

const ID = "01890a5d-ac96-774b-bcce-b302099a8057";
const PLAIN = new HeaderTemplate({ "cache-control": "no-store", "content-type": "application/json; charset=utf-8" });
const own = (fields: Record<string, string>) => new HeaderTemplate({ "cache-control": "no-store", ...fields });

type Case = { status: number; shape: HeaderTemplate; body: string | null };
const RESPONSES: Record<string, Case> = {
  "a body": { status: 200, shape: PLAIN, body: '{"object":"x"}' },
  "a body that is not ASCII": { status: 201, shape: PLAIN, body: '{"name":"Łódź"}' },
  "a header set before": { status: 200, shape: PLAIN, body: "{}" },
  "no body": { status: 204, shape: PLAIN, body: null },
  "nothing new": { status: 304, shape: PLAIN, body: null },
  "an empty body": { status: 503, shape: PLAIN, body: "" },
  "an end of the connection": { status: 413, shape: own({ connection: "close" }), body: "{}" },
  "an end in capitals": { status: 413, shape: own({ Connection: "close" }), body: "{}" },
  "a date of its own": { status: 200, shape: own({ date: "Sun, 15 Nov 2026 00:00:00 GMT" }), body: "{}" },
  "a keep-alive of its own": { status: 200, shape: own({ "keep-alive": "timeout=3" }), body: "{}" },
  "a length of its own": { status: 200, shape: own({ "Content-Length": "2" }), body: "{}" },
};

type Who = "ours" | "node";
const servers = {} as Record<Who, Server>;
const connections = new ScannedConnections(unboundedLedger());

function serverOf(who: Who): Server {
  const made = { IncomingMessage: FastRequest, ServerResponse: FastResponse, optimizeEmptyRequests: true };
  return createServer(who === "ours" ? made : {}, (req, res: ServerResponse) => {
    const name = decodeURIComponent(req.url ?? "").slice(1);
    const { status, shape, body } = RESPONSES[name] as Case;
    const head = new ResponseHead(shape, ID, status === 204 || status === 304 ? null : Buffer.byteLength(body ?? ""));
    if (name === "a header set before") res.setHeader("x-a", "b");
    if (res instanceof FastResponse) res.begin(status, head);
    else res.writeHead(status, head.list());
    res.end(body ?? undefined);
  }) as Server;
}

beforeAll(async () => {
  for (const who of ["ours", "node"] as const) {
    const server = serverOf(who);
    if (who === "ours") connections.attach(server, "connection");
    else server.keepAliveTimeout = KEEP_ALIVE_MS;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    servers[who] = server;
  }
});
afterAll(() => {
  for (const server of Object.values(servers)) {
    server.closeAllConnections();
    server.close();
  }
});

/** The responses to two requests on one connection, which also shows whether it was kept. */
function exchange(who: Who, name: string, method: string, version: string, headers: string): Promise<string> {
  const request = `${method} /${encodeURI(name)} HTTP/${version}\r\nhost: x\r\n${headers}\r\n`;
  const { port } = servers[who].address() as AddressInfo;
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(request));
    let text = "";
    let sent = 1;
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (sent++ < 2) socket.write(request);
      else socket.end();
    });
    socket.on("close", () => resolve(text));
    socket.on("error", reject);
  });
}

const DATE = /Date: (\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT)\r\n/g;

describe("a head written as text", () => {
  for (const name of Object.keys(RESPONSES)) {
    for (const [how, method, version, headers] of [
      ["as usual", "GET", "1.1", ""],
      ["from HTTP/1.0", "GET", "1.0", ""],
      ["from HTTP/1.0 with keep-alive", "GET", "1.0", "connection: keep-alive\r\n"],
      ["with connection: close", "GET", "1.1", "connection: close\r\n"],
      ["by HEAD", "HEAD", "1.1", ""],
      ["with an expectation", "POST", "1.1", "expect: 100-continue\r\ncontent-length: 0\r\n"],
    ] as const) {
      it(`is node's, to the byte: ${name}, ${how}`, async () => {
        const before = Date.now();
        const [ours, nodes] = await Promise.all(
          (["ours", "node"] as const).map((who) => exchange(who, name, method, version, headers)),
        );
        expect(ours).toContain(`request-id: ${ID}\r\n`);
        expect(ours?.replace(DATE, "Date: -\r\n")).toBe(nodes?.replace(DATE, "Date: -\r\n"));
        const times = [...(ours?.matchAll(DATE) ?? [])].map(([, date]) => Date.parse(date ?? ""));
        expect(times.every((time) => time > before - 1_000 && time <= Date.now())).toBe(true); // whole seconds
        expect(ours?.match(DATE)?.length).toBe(nodes?.match(DATE)?.length);
      });
    }
  }

  it("has the current date", async () => {
    const now = Date.now();
    const dates: (string | undefined)[] = [];
    for (const later of [0, 2_000, 60_000]) {
      const clock = vi.spyOn(Date, "now").mockReturnValue(now + later);
      try {
        dates.push(new RegExp(DATE).exec(await exchange("ours", "a body", "GET", "1.1", ""))?.[1]);
      } finally {
        clock.mockRestore();
      }
    }
    const first = Date.parse(dates[0] ?? "");
    expect(dates.map((date) => Date.parse(date ?? "") - first)).toEqual([0, 2_000, 60_000]);
  });

  it("releases a request with its response", async () => {
    const sockets: (Socket & { parser?: { incoming: unknown } })[] = [];
    servers.ours.once("connection", (socket) => sockets.push(socket));
    const { port } = servers.ours.address() as AddressInfo;
    const socket = connect(port, "127.0.0.1");
    try {
      socket.write("POST /nothing%20new HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
      await new Promise((resolve) => socket.once("data", resolve));
      await expect.poll(() => sockets[0]?.parser?.incoming === null).toBe(true);
    } finally {
      socket.destroy();
    }
  });

  it("never carries a header that would break out of its line", () => {
    for (const fields of [{ a: "b\r\nc: d" }, { "a\r\nb": "c" }, { "": "x" }, { a: "\0" }]) {
      expect(() => new HeaderTemplate(fields as unknown as Record<string, string>)).toThrow(/Invalid|must be a valid/);
    }
  });
});
