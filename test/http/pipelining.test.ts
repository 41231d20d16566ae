// Requests that a client sends before the answers to earlier ones: one of a connection runs at a time, few wait, and other
// owners take their turns in between.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { until } from "../../harness/waiting.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { attribute, inTurn, type Listener } from "../../src/http/sending/pipelining.ts";

const UNBOUNDED = { bound: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY };
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function serve(next: Listener, { share = 4_096, now = () => performance.now() } = {}) {
  const ledger = new Ledger({ bound: 16_384, share });
  const turns = new Turns(new Ledger(UNBOUNDED), now);
  const refuse = (res: ServerResponse): unknown => res.writeHead(503).end();
  const addressOf = (): string => "192.0.2.1";
  const server = createServer(inTurn({ turns, ledger, addressOf, refuse }, next));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const client = async (): Promise<{ socket: Socket; text: () => string }> => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => (text += chunk));
    socket.on("error", () => {});
    await once(socket, "connect");
    return { socket, text: () => text };
  };
  return { server, ledger, client };
}

const requests = (count: number, key: string, from = 0): string =>
  Array.from(
    { length: count },
    (_, i) => `GET /${key}/${from + i} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`,
  ).join("");
const answers = (text: string): string[] => [...text.matchAll(/^\/\w+\/\d+$/gm)].map(([path]) => path);

describe("pipelined requests", () => {
  it("run one at a time, and are answered in order", async () => {
    const running = new Set<ServerResponse>();
    let most = 0;
    const { client, ledger } = await serve((req, res) => {
      running.add(res);
      most = Math.max(most, running.size);
      setImmediate(() => {
        running.delete(res);
        res.end(`${req.url}\n`);
      });
    });
    const { socket, text } = await client();
    socket.write(requests(100, "a"));
    await until(() => answers(text()).length === 100);
    expect(answers(text())).toEqual(Array.from({ length: 100 }, (_, i) => `/a/${i}`));
    expect([most, ledger.used]).toEqual([1, 0]);
  });

  it("are not read beyond those that wait, until answers leave", async () => {
    const held: { req: IncomingMessage; res: ServerResponse }[] = [];
    let isHolding = true;
    const { client, ledger } = await serve((req, res) => {
      if (isHolding) held.push({ req, res });
      else res.end(`${req.url}\n`);
    });
    const { socket, text } = await client();
    const COUNT = 5_000;
    socket.write(requests(COUNT, "a"));
    await until(() => held[0]?.req.socket.isPaused() === true);
    expect(held.length).toBe(1);
    expect(ledger.used).toBeGreaterThan(16);
    expect(ledger.used).toBeLessThan(2_500); // they do not fit into one piece
    isHolding = false;
    held[0]?.res.end("/a/0\n");
    await until(() => answers(text()).length === COUNT);
    expect(answers(text())).toEqual(Array.from({ length: COUNT }, (_, i) => `/a/${i}`));
    expect(ledger.used).toBe(0);
  });

  it("are refused above the owner's share, and leave nothing behind with their connection", async () => {
    const held: ServerResponse[] = [];
    const { client, ledger } = await serve((_req, res) => void held.push(res), { share: 3 });
    const { socket, text } = await client();
    socket.write(requests(6, "a"));
    await until(() => ledger.refused.get("network") === 2);
    expect([held.length, ledger.used]).toEqual([1, 3]);
    socket.destroy();
    await until(() => ledger.used === 0);
    expect([held.length, text()]).toEqual([1, ""]);
  });

  it("of one owner do not delay another owner's", async () => {
    const order: string[] = [];
    let now = 0;
    const next: Listener = (req, res) => {
      attribute(req.socket, { kind: "user", user_id: String(req.headers.authorization) });
      order.push(req.url ?? "");
      now += 0.25;
      res.end(`${req.url}\n`);
    };
    const { client } = await serve(next, { now: () => now });
    const [flood, quiet] = [await client(), await client()];
    flood.socket.write(requests(1, "flood"));
    quiet.socket.write(requests(1, "quiet"));
    await until(() => answers(flood.text() + quiet.text()).length === 2); // both owners are known
    flood.socket.write(requests(400, "flood", 1));
    quiet.socket.write(requests(1, "quiet", 1));
    await until(() => answers(flood.text()).length === 401);
    expect(answers(flood.text())).toEqual(Array.from({ length: 401 }, (_, i) => `/flood/${i}`));
    expect(order.indexOf("/quiet/1")).toBeLessThan(40);
  });
});
