// The idempotency records of the fake control plane (docs/design/0006-idempotency-fencing.md). Time is a field, so that
// a test can let a lock expire at once.

import { randomBytes } from "node:crypto";
import type { FakeResponse } from "./exchange.ts";

type Body = Record<string, unknown>;
type Stored = { status: number; headers: Record<string, string>; body: string | null; body_stored: boolean };
type IdempotencyRecord = { fingerprint: unknown; token: string; until: number; stored: Stored | null };

const LOCK_MS = 30_000;
const MAX_BODY = 262_144;

export class FakeIdempotency {
  now: () => number = () => Date.now();
  lockMs = LOCK_MS;
  readonly calls: { verb: string; body: Body }[] = [];
  readonly records = new Map<string, IdempotencyRecord>();

  respond(verb: string, body: Body): FakeResponse {
    this.calls.push({ verb, body });
    const name = `${String(body["env"])}:${String(body["scope_hash"])}`;
    if (!/^[0-9a-f]{64}$/.test(String(body["scope_hash"]))) return { status: 400, json: { error: {} } };
    if (verb === "claim") return { status: 200, json: this.#claim(name, body) };
    const outcome = this.#outcome(verb, name, body);
    const record = { object: "idempotency_record", outcome };
    const stored = this.records.get(name)?.stored;
    return {
      status: 200,
      json: verb === "complete" ? { ...record, body_stored: stored?.body_stored ?? false } : record,
    };
  }

  #claim(name: string, body: Body) {
    const known = this.records.get(name);
    const base = {
      object: "idempotency_claim",
      lock_token: null as string | null,
      lock_ms: this.lockMs,
      stolen: false,
      retry_after_ms: null as number | null,
      response: null as Stored | null,
      max_body_bytes: MAX_BODY,
    };
    if (known && known.fingerprint !== body["fingerprint"]) return { ...base, state: "mismatch" };
    if (known?.stored) return { ...base, state: "replay", response: known.stored };
    const left = known ? known.until - this.now() : 0;
    if (left > 0) return { ...base, state: "in_progress", retry_after_ms: Math.min(30_000, Math.max(100, left)) };
    const token = randomBytes(24).toString("base64url");
    this.records.set(name, { fingerprint: body["fingerprint"], token, until: this.now() + this.lockMs, stored: null });
    return { ...base, state: "execute", lock_token: token, stolen: known !== undefined };
  }

  #outcome(verb: string, name: string, body: Body): string {
    const known = this.records.get(name);
    if (!known) return "not_found";
    const ours = known.token === body["lock_token"];
    if (known.stored) return verb === "complete" && ours ? "ok" : "completed";
    if (!ours) return "lock_lost";
    if (verb === "heartbeat") known.until = this.now() + this.lockMs;
    if (verb === "release") this.records.delete(name);
    if (verb === "complete") known.stored = toStored(body);
    return "ok";
  }
}

function toStored(body: Body): Stored {
  const text = body["body"] as string | null;
  const fits = text !== null && Buffer.from(text, "base64").length <= MAX_BODY;
  const headers = (body["headers"] ?? {}) as Record<string, string>;
  return { status: Number(body["status"]), headers, body: fits ? text : null, body_stored: fits };
}
