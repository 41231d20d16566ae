// Tries the connections that settings name, without the libraries that use them later. Null means good.
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Settings } from "../../../config/settings.ts";
import { ExitError } from "../../ui/output.ts";

const WAIT_MS = 5_000;
const REDIS_OK = /^\+PONG/m;
const DEFAULT_PORTS: Record<string, number> = { "redis:": 6379, "rediss:": 6379, "smtp:": 25, "smtps:": 465 };

/** Sends `say` once connected, and reads until `until` or `bad` is seen. */
function converse(url: URL, say: string, until: RegExp, bad: RegExp): Promise<string | null> {
  const port = Number(url.port) || (DEFAULT_PORTS[url.protocol] ?? 0);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const secure = url.protocol === "rediss:" || url.protocol === "smtps:";
  return new Promise((resolve) => {
    const socket: Socket = secure ? connectTls({ host, port, servername: host }) : connectTcp({ host, port });
    let heard = "";
    const end = (result: string | null): void => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(WAIT_MS, () => end("no answer in time"));
    socket.on(secure ? "secureConnect" : "connect", () => say && socket.write(say));
    socket.on("error", (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    socket.on("close", () => end("the connection was closed"));
    socket.on("data", (chunk: Buffer) => {
      heard += chunk.toString("latin1");
      const refused = bad.exec(heard);
      if (refused) end(refused[0].trim());
      else if (until.test(heard)) end(null);
    });
  });
}

const resp = (...words: string[]): string =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

export function tryRedis(text: string): Promise<string | null> {
  const url = new URL(text);
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const auth = password ? resp("AUTH", ...(user ? [user] : []), password) : "";
  return converse(url, auth + resp("PING"), REDIS_OK, /^-[^\r]*/m);
}

export function trySmtp(text: string): Promise<string | null> {
  return converse(new URL(text), "", /^220[ -]/m, /^[45]\d\d[^\r]*/m);
}

export async function tryPostgres(url: string): Promise<string | null> {
  const { withSource } = await import("../audit/offline.ts");
  try {
    return await withSource({ kind: "postgres", url, pool: 1 }, async (source) => {
      await source.begin();
      await source.commit();
      return null;
    });
  } catch (error) {
    if (error instanceof ExitError) return error.message;
    throw error;
  }
}

export type Tried = { what: string; problem: string | null };

/** Every connection these settings need. */
export async function tryConnections({ database_url, redis_url, mail_url }: Settings): Promise<Tried[]> {
  const tried: Tried[] = [];
  if (database_url.kind === "postgres")
    tried.push({ what: "PostgreSQL", problem: await tryPostgres(database_url.url) });
  for (const url of redis_url ?? []) tried.push({ what: "Redis", problem: await tryRedis(url) });
  if (mail_url.kind === "smtp") tried.push({ what: "the mail server", problem: await trySmtp(mail_url.url) });
  return tried;
}
