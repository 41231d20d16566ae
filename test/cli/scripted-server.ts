// An HTTP server that answers the CLI with what a test says, such as a lost response.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** `lost`: the connection ends without a response. */
export type Scripted = { status?: number; json: object } | "lost";
/** `route` is method and path, without the query. */
export type ScriptedRequest = { route: string; headers: IncomingHttpHeaders; body: Record<string, unknown> };

export async function scriptedServer(
  answer: (request: ScriptedRequest) => Scripted,
): Promise<{ url: string } & AsyncDisposable> {
  const server = createServer(async (req, res) => {
    const sent = await text(req);
    const body = sent === "" ? {} : (JSON.parse(sent) as Record<string, unknown>);
    const route = `${req.method} ${req.url?.split("?")[0]}`;
    const reply = answer({ route, headers: req.headers, body });
    if (reply === "lost") req.socket.destroy();
    else res.writeHead(reply.status ?? 200, { "content-type": "application/json" }).end(JSON.stringify(reply.json));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
