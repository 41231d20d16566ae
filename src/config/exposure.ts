// Which addresses are of this machine, and which connections to other machines are not encrypted.
import type { Settings } from "./settings.ts";

export function isLoopback(host: string): boolean {
  return /^(127\.|::1$|localhost$)/.test(host);
}

type PlainConnection = { what: string; fix: string };

/** Connections to a PostgreSQL or Redis on another machine without TLS. */
export function plainConnections({ database_url, redis_url }: Settings): PlainConnection[] {
  const found: PlainConnection[] = [];
  const database = database_url.kind === "postgres" ? plainPostgresHost(new URL(database_url.url)) : null;
  if (database !== null)
    found.push({
      what: `The connection to PostgreSQL on ${database} is not encrypted.`,
      fix: "Add sslmode=verify-full to KEYRACK_DATABASE_URL.",
    });
  const redis = (redis_url ?? []).map((url) => new URL(url)).find((url) => url.protocol === "redis:" && isRemote(url));
  if (redis)
    found.push({
      what: `The connection to Redis on ${redis.hostname} is not encrypted.`,
      fix: "Use rediss:// in KEYRACK_REDIS_URL.",
    });
  return found;
}

function isRemote({ hostname }: URL): boolean {
  return hostname !== "" && !isLoopback(hostname.replace(/^\[|\]$/g, ""));
}

/** As the pg package reads the URL; a host that begins with a slash is a Unix socket. Null if nothing is exposed. */
function plainPostgresHost(url: URL): string | null {
  const { searchParams } = url;
  const host = searchParams.get("host") ?? decodeURIComponent(url.hostname).replace(/^\[|\]$/g, "");
  if (host === "" || host.startsWith("/") || isLoopback(host)) return null;
  const mode = searchParams.get("sslmode");
  const encrypts =
    mode === null
      ? ["true", "1"].includes(searchParams.get("ssl") ?? "") ||
        ["sslcert", "sslkey", "sslrootcert", "sslnegotiation"].some((name) => searchParams.has(name)) ||
        !["", "disable"].includes(process.env.PGSSLMODE ?? "")
      : mode !== "disable";
  return encrypts ? null : host;
}
