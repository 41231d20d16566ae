// The server's own URL.
import type { Settings } from "./settings.ts";

/** With the configured host, which the operator recognises. `port` is the one that was assigned. */
export function serverUrl({ host, tls_cert }: Pick<Settings, "host" | "tls_cert">, port: number): string {
  return `${tls_cert ? "https" : "http"}://${bracketed(host)}:${port}`;
}

/** A host as a URL spells it. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
