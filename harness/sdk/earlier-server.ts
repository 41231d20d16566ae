// A proxy that makes a server look like one of release 0.1.0 to nodes: it refuses the parameter `caps` of the policy
// feed as unknown, until it is upgraded.
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

type EarlierServer = AsyncDisposable & { readonly url: string; upgraded: boolean; refused: number };

export async function earlierServer(url: string): Promise<EarlierServer> {
  const server = createServer((req, res) => {
    if (!proxy.upgraded && new URL(req.url ?? "/", url).searchParams.has("caps")) {
      proxy.refused++;
      res.writeHead(400, { "content-type": "application/json" });
      res.end('{"error":{"code":"invalid_request","message":"The query is invalid."}}');
      return;
    }
    const { host: _, ...headers } = req.headers;
    const upstream = request(new URL(req.url ?? "/", url), { method: req.method, headers }, (reply) => {
      res.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(res);
    });
    upstream.on("error", () => res.destroy());
    res.on("close", () => upstream.destroy());
    req.pipe(upstream);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: EarlierServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    upgraded: false,
    refused: 0,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return proxy;
}
