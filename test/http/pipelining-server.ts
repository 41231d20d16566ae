// A server whose requests wait for each other and for turns, and clients over bare sockets.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach } from "vitest";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner } from "../../src/fairness/owners.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { withPipelining, type Listener } from "../../src/http/receiving/pipelining.ts";

const UNBOUNDED = { bound: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY };
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** `parsed` has the number of requests that were read in each turn of the event loop. */
export async function serve(
  next: Listener,
  { bound = 16_384, share = 4_096, now = () => performance.now(), turns = new Turns(new Ledger(UNBOUNDED), now) } = {},
) {
  const ledger = new Ledger({ bound, share });
  const refuse = (res: ServerResponse): unknown => res.writeHead(503).end();
  const addressOf = (): string => "192.0.2.1";
  const parsed: number[] = [];
  const knownOwner = ({ headers }: IncomingMessage) =>
    headers.authorization === "Bearer known" ? cellOwner("known", "live") : undefined;
  const discard = (req: IncomingMessage): unknown => req.resume();
  const listener = withPipelining({ turns, ledger, addressOf, knownOwner, discard, refuse }, next);
  let inTurnSoFar = 0;
  const server = createServer((req, res) => {
    if (inTurnSoFar++ === 0) {
      setImmediate(() => {
        parsed.push(inTurnSoFar);
        inTurnSoFar = 0;
      });
    }
    listener(req, res);
  });
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
  return { server, ledger, turns, client, parsed };
}

export const requests = (count: number, key: string, from = 0, more = `authorization: Bearer ${key}\r\n`): string =>
  Array.from({ length: count }, (_, i) => `GET /${key}/${from + i} HTTP/1.1\r\nhost: x\r\n${more}\r\n`).join("");
export const answers = (text: string): string[] => [...text.matchAll(/^\/\w+\/\d+$/gm)].map(([path]) => path);
