// The cursor of a paged snapshot: base64url of JSON {v, p, f, n, k, t} followed by 16 bytes of HMAC-SHA-256. The fields
// are format version, project, filter, policy version of the first page, last key id sent, and creation time. Where the
// project uses capabilities, `u` has them and `c` those of the node: no snapshot mixes pages for nodes that enforce
// different things.
import { createHmac, timingSafeEqual } from "node:crypto";
import { DAY_MS } from "../../kernel/durations.ts";
import { failField, type Failure } from "../../kernel/errors.ts";
import type { Services } from "../core/context.ts";
import { variantOf, type Filter } from "./filter.ts";
import type { Head } from "./head.ts";

const VERSION = 1;
const MAC_BYTES = 16;
const AGE_MAX_MS = 7 * DAY_MS;

export type Cursor = { version: number; after: string };

type Wire = { v: number; p: string; f: string; n: number; k: string; t: number; u?: number; c?: number };

const macKeys = new WeakMap<Services["vault"], Uint8Array>();

function macOf(services: Services, text: Uint8Array): Buffer {
  const key = macKeys.get(services.vault) ?? services.vault.derive("cursor");
  macKeys.set(services.vault, key);
  return createHmac("sha256", key).update(text).digest().subarray(0, MAC_BYTES);
}

export function writeCursor(services: Services, head: Head, filter: Filter, cursor: Cursor): string {
  const wire: Wire = {
    v: VERSION,
    p: head.project_id,
    f: filter.segment,
    n: cursor.version,
    k: cursor.after,
    t: services.clock.now(),
    ...(head.features !== 0 && { u: head.features, c: variantOf(head, filter) }),
  };
  const text = Buffer.from(JSON.stringify(wire));
  return Buffer.concat([text, macOf(services, text)]).toString("base64url");
}

/** Malformed, forged, outdated and foreign cursors all get the same failure, so that probing reveals nothing. */
export function readCursor(services: Services, { project_id }: Head, filter: Filter, text: string): Cursor {
  const bytes = Buffer.from(text, "base64url");
  const body = bytes.subarray(0, Math.max(0, bytes.length - MAC_BYTES));
  const mac = bytes.subarray(body.length);
  if (mac.length !== MAC_BYTES || !timingSafeEqual(mac, macOf(services, body))) throw invalidCursor();
  if (bytes.toString("base64url") !== text) throw invalidCursor(); // only the canonical encoding
  const { v, p, f, n, k, t, u = 0, c = 0 } = JSON.parse(body.toString()) as Wire;
  const isOfFilter = f === filter.segment && c === variantOf({ features: u }, filter);
  if (v !== VERSION || p !== project_id || !isOfFilter || services.clock.now() - t > AGE_MAX_MS) throw invalidCursor();
  return { version: n, after: k };
}

function invalidCursor(): Failure {
  return failField(
    "invalid_query",
    "cursor",
    "is not a cursor of this snapshot, or is too old: start again without it",
  );
}
