// The Idempotency-Key header of our own POSTs: reads it, fingerprints the request, and lets one request per key run at
// a time.
import { hash } from "node:crypto";
import type { Actor } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { createReplay, type IdempotencyReplay } from "../domain/idempotency/replays.ts";
import { fail, failField } from "../kernel/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import type { HttpRequest } from "./request.ts";

export function replayOf(
  endpoint: Endpoint,
  request: HttpRequest,
  credential: { token: string | null; actor: Actor },
  bytes?: Uint8Array,
): IdempotencyReplay | undefined {
  const header = request.headers["idempotency-key"];
  const { token: bearer, actor } = credential;
  if (header === undefined || bearer === null) return undefined;
  const text = String(header);
  const key = /^"(.*)"$/.exec(text)?.[1] ?? text;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw failField("invalid_header", "idempotency-key", "must be 1 to 255 visible ASCII characters");
  }
  const query = [...new URLSearchParams(`?${request.search}`)].map(([name, value]) => `${name}=${value}`).toSorted();
  const content = hash("sha256", bytes ?? new Uint8Array());
  const fingerprint = [request.method, request.path, query.join("&"), content].join("\n");
  return createReplay({
    bearer,
    scope: scopeOf(endpoint, actor),
    idempotencyKey: key,
    request: fingerprint,
    isOptional: !endpoint.stores,
  });
}

/** A session moves between workspaces, so its keys belong to the active one, unless the request changes that. */
function scopeOf({ changesWorkspace }: Endpoint, actor: Actor): string | null {
  return actor.kind === "session" && !changesWorkspace ? actor.workspace_id : null;
}

/** Runs the handler unless a request with the same key is still running in this process. */
export async function runOnce<T>(
  services: Services,
  { key_hash }: IdempotencyReplay,
  handle: () => T | Promise<T>,
): Promise<T> {
  if (services.inFlight.has(key_hash)) throw fail("idempotency_in_flight");
  services.inFlight.add(key_hash);
  try {
    return await handle();
  } finally {
    services.inFlight.delete(key_hash);
  }
}
