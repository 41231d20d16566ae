// Connects to PostgreSQL: the only place that creates a client, so that all have the same types and timeout.
import type { Socket } from "node:net";
import type { Client, ClientConfig } from "pg";
import { isConnectionLost, LoginRefused, UrlUnusable } from "./connection-lost.ts";
import { isOverloaded } from "./query.ts";

const INT8 = 20;
const CONNECT_MAX_MS = 3_000;
/**
 * The server finds out in 25 s that this host has lost power or network; by default it takes two hours, for which a
 * session keeps its locks and keeps commands away that need the database alone. Linux sends no keepalives while data is
 * unacknowledged, for which tcp_user_timeout counts (15 min by default). A server on another system ignores it.
 */
const KEEPALIVES =
  "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25s";

export type ConnectOptions = Omit<ClientConfig, "connectionString" | "types"> & {
  /** Called when an established or half-open connection breaks or ends. */
  onLost?: (client: Client) => void;
  /** Called when connected, before anything else is sent. If it throws, the connection is closed. */
  check?: ((client: Client) => Promise<void>) | undefined;
  /** Called with the error of an attempt to connect, or without one after a success; readers also after each query. */
  onAttempt?: OnAttempt;
};

export type OnAttempt = (error?: unknown) => void;

export async function connectPostgres(url: string, options: ConnectOptions = {}): Promise<Client> {
  const { onAttempt, ...how } = options;
  try {
    const client = await connect(url, how);
    onAttempt?.();
    return client;
  } catch (error) {
    onAttempt?.(error);
    throw error;
  }
}

async function connect(url: string, options: Omit<ConnectOptions, "onAttempt">): Promise<Client> {
  const { onLost = () => {}, check, options: session = "", ...more } = options;
  const { Client, TypeOverrides } = await import("pg"); // a server on SQLite starts without it
  const types = new TypeOverrides();
  types.setTypeParser(INT8, (text) => Number(text)); // our integers stay far below 2^53
  const config = { connectionTimeoutMillis: connectMaxMs(url), ...more, types };
  const how = { ...config, ...withSession(url, `${KEEPALIVES} ${session}`, config.application_name) };
  const client = construct(() => new Client(how));
  client.on("error", () => onLost(client)); // without a listener Node would throw; the next query fails by itself
  client.on("end", () => onLost(client));
  try {
    await client.connect();
  } catch (error) {
    throw isConnectionLost(error) || isOverloaded(error)
      ? error
      : new LoginRefused((error as Error).message, { cause: error });
  }
  try {
    await check?.(client);
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
  return client;
}

/** Reads files that the URL names, which the check of the settings does not. */
function construct(make: () => Client): Client {
  try {
    return make();
  } catch (error) {
    throw new UrlUnusable(error as Error);
  }
}

/** Fails what is in flight at once: `end` of a pipelined client waits for it. pg's types lack the socket. */
export function dropConnection(client: Client): void {
  (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
}

/** `connect_timeout` is in seconds, as in PostgreSQL's own tools. */
function connectMaxMs(url: string): number {
  const seconds = Number(/[?&]connect_timeout=(\d+)/.exec(url)?.[1] ?? 0);
  return seconds > 0 ? seconds * 1_000 : CONNECT_MAX_MS;
}

/**
 * Parameters of the URL would take precedence over ours, which locks and the other processes depend on: they recognise
 * this one by its name. `options` of the URL come first, because the last of two equal settings counts.
 */
function withSession(url: string, session: string, name: string | undefined): ClientConfig {
  const [address = "", ...query] = url.split("?");
  const parameters = new URLSearchParams(query.join("?"));
  const options = `${parameters.get("options") ?? ""} ${session}`.trim();
  const replaced = ["options", ...Array.from(session.matchAll(/-c (\w+)=/g), ([, setting = ""]) => setting)];
  if (name) replaced.push("application_name", "fallback_application_name");
  for (const parameter of replaced) parameters.delete(parameter);
  // What pg takes these for: it prints a long warning where they are not spelled out.
  if (/^(prefer|require|verify-ca)$/.test(parameters.get("sslmode") ?? "") && !parameters.has("uselibpqcompat"))
    parameters.set("sslmode", "verify-full");
  return { connectionString: parameters.size > 0 ? `${address}?${parameters.toString()}` : address, options };
}

/** Runs `work` on a connection of its own. */
export async function withPostgres<T>(
  url: string,
  work: (client: Client) => Promise<T>,
  options: ConnectOptions = {},
): Promise<T> {
  const client = await connectPostgres(url, options);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
