// A proxy in front of PostgreSQL that cuts the connection exactly at COMMIT: before the server receives it, or after it
// has committed and before the client receives the reply.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export type Cut = "before commit" | "after commit";
export type Proxy = AsyncDisposable & {
  /** The server's address through the proxy. */
  url(real: string): string;
  /** Cuts the next connection that commits, once. Resolves when it has. */
  cutNext(when: Cut): Promise<void>;
};

/** COMMIT as the client sends it, and as the server confirms it. */
const COMMIT = Buffer.from("commit\0");
const COMMITTED = Buffer.from("COMMIT\0");

export async function tcpProxy(host: string, port: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let armed: { when: Cut; done: () => void } | undefined;
  const server = createServer((client) => {
    const upstream = connect(port, host);
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end).on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    let cut: (() => void) | undefined;
    client.on("data", (data) => {
      if (armed && data.includes(COMMIT)) {
        const { when, done } = armed;
        armed = undefined;
        cut = () => {
          end();
          done();
        };
        if (when === "before commit") return cut();
      }
      upstream.write(data);
    });
    // Replies to earlier statements come first, possibly in a packet of their own.
    upstream.on("data", (data) => (cut && data.includes(COMMITTED) ? cut() : client.write(data)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: (real) => {
      const url = new URL(real);
      url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      return url.href;
    },
    cutNext: (when) =>
      new Promise((done) => {
        armed = { when, done };
      }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
