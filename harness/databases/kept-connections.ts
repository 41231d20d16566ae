// One PostgreSQL connection per process and database, for statements beside the store: to connect costs both sides more
// than most statements. A dropped database ends its connection.
import type { Client } from "pg";
import { connectPostgres } from "../../src/store/postgres/client.ts";
import { DEADLINE_MS } from "../waiting.ts";

/** pg has these methods; its types lack them. */
type Idle = Client & { ref(): void; unref(): void };
type Kept = { connecting: Promise<Idle>; last: Promise<unknown> };

const connections = new Map<string, Kept>();

/** Runs `work` after what others asked of the connection before. */
export function withKept<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const kept = connections.get(url) ?? connect(url);
  const run = kept.last.then(async () => {
    const client = await kept.connecting;
    client.ref();
    try {
      return await work(client);
    } finally {
      client.unref(); // it keeps no process alive
    }
  });
  kept.last = run.catch(() => {});
  return run;
}

function connect(url: string): Kept {
  const forget = (): void => void (connections.get(url) === kept && connections.delete(url));
  const options = { connectionTimeoutMillis: DEADLINE_MS, onLost: forget };
  const connecting = connectPostgres(url, options) as Promise<Idle>;
  const kept: Kept = { connecting, last: Promise.resolve() };
  connecting.catch(forget);
  connections.set(url, kept);
  return kept;
}
