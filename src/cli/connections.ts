// Tries the connections that the settings name, without loading the client libraries. Null means that one works.
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Settings } from "../config/settings.ts";
import { classifyRedisError, type RedisError } from "../ratelimit/redis/error.ts";
import { failureOf } from "../platform/post.ts";
import { ExitError } from "./ui/output.ts";

const TIMEOUT_MS = 5_000;
/** Another node of a cluster has the key of the probe. */
const REDIS_OK = /^(:1|-MOVED )/m;
const DEFAULT_PORTS: Record<string, number> = { "redis:": 6379, "rediss:": 6379, "smtp:": 25, "smtps:": 465 };

/** Sends `greeting` once connected, and reads until the reply matches `ok` or `refusal`. */
function probe(url: URL, greeting: string, ok: RegExp, refusal: RegExp): Promise<string | null> {
  const port = Number(url.port) || (DEFAULT_PORTS[url.protocol] ?? 0);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const secure = url.protocol === "rediss:" || url.protocol === "smtps:";
  return new Promise((resolve) => {
    const socket: Socket = secure ? connectTls({ host, port, servername: host }) : connectTcp({ host, port });
    let received = "";
    const end = (problem: string | null): void => {
      socket.destroy();
      resolve(problem);
    };
    socket.setTimeout(TIMEOUT_MS, () => end("timed out"));
    socket.on(secure ? "secureConnect" : "connect", () => greeting && socket.write(greeting));
    socket.on("error", (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    socket.on("close", () => end("the connection was closed"));
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      const refused = refusal.exec(received);
      if (refused) end(refused[0].replace(/^-|\.?\s*$/g, ""));
      else if (ok.test(received)) end(null);
    });
  });
}

const respCommand = (...words: string[]): string =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

async function tryRedis(text: string): Promise<string | null> {
  const { PROBE } = await import("../ratelimit/redis/scripts.ts");
  const url = new URL(text);
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const auth = password ? respCommand("AUTH", ...(user ? [user] : []), password) : "";
  const database = url.pathname.slice(1);
  const select = Number(database) > 0 ? respCommand("SELECT", database) : "";
  return probe(
    url,
    auth + select + respCommand("EVAL", PROBE.text, "1", "keyrack:probe"),
    REDIS_OK,
    /^-(?!MOVED )[^\r]*/m,
  );
}

function trySmtp(text: string): Promise<string | null> {
  return probe(new URL(text), "", /^220[ -]/m, /^[45]\d\d[^\r]*/m);
}

async function tryPostgres(url: string): Promise<string | null> {
  const { withOfflineSource } = await import("./commands/audit/offline.ts");
  try {
    return await withOfflineSource({ kind: "postgres", url, pool: 1 }, async (source) => {
      await source.begin();
      await source.commit();
      return null;
    });
  } catch (error) {
    if (error instanceof ExitError) return error.message;
    throw error;
  }
}

/** Any answer will do: an empty batch may be refused. */
async function tryEndpoint(url: string): Promise<string | null> {
  try {
    await (
      await fetch(url, { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) })
    ).body?.cancel();
    return null;
  } catch (error) {
    return failureOf(error);
  }
}

/** What to do about a problem, by its class. */
const REDIS_FIXES: Partial<Record<RedisError, string>> = {
  auth: "Check user and password in KEYRACK_REDIS_URL, and what that user may do (docs/scale.md).",
  tls: "Check that it serves TLS. If a private CA issued its certificate, name that CA in NODE_EXTRA_CA_CERTS.",
};
const FIX = "Check its address and that it is running.";

export type ConnectionResult = { name: string; problem: string | null; fix: string };

/** Tries every connection that these settings need. */
export async function tryConnections({
  database_url,
  redis_url,
  mail_url,
  meter_url,
}: Settings): Promise<ConnectionResult[]> {
  const results: ConnectionResult[] = [];
  if (database_url.kind === "postgres")
    results.push({ name: "PostgreSQL", problem: await tryPostgres(database_url.url), fix: FIX });
  for (const url of redis_url ?? []) {
    const problem = await tryRedis(url);
    const error =
      problem === null ? undefined : classifyRedisError(Object.assign(new Error(problem), { code: problem }));
    results.push({ name: "Redis", problem, fix: (error && REDIS_FIXES[error]) ?? FIX });
  }
  if (mail_url.kind === "smtp")
    results.push({ name: "the mail server", problem: await trySmtp(mail_url.url), fix: FIX });
  if (meter_url !== null)
    results.push({ name: "the metering system", problem: await tryEndpoint(meter_url), fix: FIX });
  return results;
}
