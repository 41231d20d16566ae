// A proxy in front of PostgreSQL that cuts the connection exactly at COMMIT: before the server receives it, while it
// commits, or after it has committed and before the client receives the reply. It can also leave listening connections
// open and dead.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import type { TestServices } from "../instances/services.ts";

export type Cut = "before commit" | "during commit" | "after commit";
export type Proxy = AsyncDisposable & {
  /** The database's address through the proxy. */
  url: string;
  /** Cuts the next connection that commits, once. Resolves when it has. */
  cutNext(when: Cut): Promise<void>;
  /** From now on nothing passes on the connections that listen for notifications, which stay open. New ones work. */
  swallowListeners(): void;
  /** The same, and the server does not see their end either: as if this host had lost its power. */
  darkenListeners(): void;
  /** The same on all connections that are open now. */
  swallowAll(): void;
};

/** COMMIT as the client sends it, and as the server confirms it. */
const COMMIT = Buffer.from("commit\0");
const COMMITTED = Buffer.from("COMMIT\0");
const LISTEN = Buffer.from("listen keyrack\0");

/** `dead`: nothing passes. `dark`: nor does the end of one side. */
type State = { dead: boolean; dark: boolean };

/** Each ends with the other, unless the connection is dark; `open` holds those that have not. */
function endTogether(pair: readonly Socket[], open: Set<Socket>, state: State): () => void {
  const end = (): void => {
    if (!state.dark) for (const socket of pair) socket.destroy();
  };
  for (const socket of pair) {
    open.add(socket);
    socket.on("error", end).on("close", () => {
      open.delete(socket);
      end();
    });
  }
  return end;
}

function addressOf(real: string): { host: string; port: number } {
  const { hostname, port } = new URL(real);
  return { host: hostname, port: Number(port || 5432) };
}

function withPort(real: string, port: number): string {
  const url = new URL(real);
  url.host = `127.0.0.1:${port}`;
  url.searchParams.delete("host"); // a Unix socket
  return url.href;
}

export async function tcpProxy(real: string): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const listeners = new Set<State>();
  const all = new Set<State>();
  let armed: { when: Cut; done: () => void } | undefined;
  const server = createServer((client) => {
    const upstream = connect(addressOf(real));
    const state: State = { dead: false, dark: false };
    const end = endTogether([client, upstream], sockets, state);
    let cut: (() => void) | undefined;
    all.add(state);
    client.on("data", (data) => {
      if (state.dead) return;
      if (data.includes(LISTEN)) listeners.add(state);
      if (armed && data.includes(COMMIT)) {
        const { when, done } = armed;
        armed = undefined;
        cut = () => {
          end();
          done();
        };
        if (when === "before commit") return cut();
        if (when === "during commit") {
          state.dead = state.dark = true; // the server ends its side when it has committed
          upstream.end(data);
          client.destroy();
          return done();
        }
      }
      upstream.write(data);
    });
    // Replies to earlier statements come first, possibly in a packet of their own.
    upstream.on("data", (data) => {
      if (cut && data.includes(COMMITTED)) cut();
      else if (!state.dead) client.write(data);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: withPort(real, (server.address() as AddressInfo).port),
    cutNext: (when) =>
      new Promise((done) => {
        armed = { when, done };
      }),
    swallowListeners: () => {
      for (const listener of listeners) listener.dead = true;
    },
    darkenListeners: () => {
      for (const listener of listeners) listener.dead = listener.dark = true;
    },
    swallowAll: () => {
      for (const each of all) each.dead = true;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** A second process on the same database, which it reaches through a proxy. */
export async function throughProxy(fixture: TestServices) {
  if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
  await using opened = new AsyncDisposableStack();
  const proxy = opened.use(await tcpProxy(fixture.target.url));
  const other = opened.use(await fixture.another({ ...fixture.target, url: proxy.url }));
  const close = opened.move();
  return { proxy, other, [Symbol.asyncDispose]: () => close.disposeAsync() };
}
