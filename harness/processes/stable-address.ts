// A TCP address that stays while the server behind it stops and starts again elsewhere. The system chooses every port,
// so none can be taken by another process in between.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { pipeline } from "node:stream";

export type StableAddress = AsyncDisposable & {
  /** "127.0.0.1:port" */
  readonly host: string;
  readonly url: string;
  /** The port, or the path of the Unix socket, of the server; null: new connections are reset. */
  target: number | string | null;
};

export async function stableAddress(): Promise<StableAddress> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const { target } = address;
    if (target === null) {
      client.resetAndDestroy();
      return;
    }
    const upstream = typeof target === "number" ? connect(target, "127.0.0.1") : connect(target);
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.once("close", () => open.delete(socket));
    }
    pipeline(client, upstream, client, () => {});
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const address: StableAddress = {
    host,
    url: `http://${host}`,
    target: null,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  return address;
}

export const portOf = (url: string): number => Number(new URL(url).port);
