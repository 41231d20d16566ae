// The ingest endpoint of the fake control plane: one invalid event rejects the whole batch.

import type { FakeResponse } from "./exchange.ts";

type SeenEvent = {
  ts: string;
  project_id: string;
  env: string;
  would_deny?: string;
  network?: string | null;
  tenant_id: string | null;
  key_id: string | null;
  display_prefix: string | null;
  method: string;
  path: string;
  route: string | null;
  status: number;
  duration_ms: number;
  degraded: boolean;
  denial_reason: string | null;
  request_id: string;
  sample_rate?: number;
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class FakeIngest {
  readonly events: SeenEvent[] = [];
  dropped = 0;
  batches = 0;
  readonly #bodies = new Set<string>();

  respond(text: string): FakeResponse {
    const batch = JSON.parse(text) as Record<string, unknown>;
    const events = batch["events"] as SeenEvent[];
    const sdk = batch["sdk"] as { name?: unknown; version?: unknown } | undefined;
    const hasHead = batch["object"] === "ingest_batch" && batch["protocol_version"] === 1 && batch["node_id"];
    const hasSdk = typeof sdk?.name === "string" && typeof sdk.version === "string";
    if (!hasHead || !hasSdk || !Array.isArray(events) || events.length > 5000 || !events.every(isEvent)) {
      return { status: 400, json: { error: { code: "invalid_request", message: "The request body is not valid." } } };
    }
    const dropped = Number(batch["events_dropped"] ?? 0);
    if (!this.#bodies.has(text)) {
      this.events.push(...events);
      this.dropped += dropped;
      this.batches++;
    }
    this.#bodies.add(text);
    return {
      status: 202,
      json: { object: "ingest_receipt", accepted: events.length, events_dropped_reported: dropped },
    };
  }
}

function isEvent(event: SeenEvent): boolean {
  const ids = [event.tenant_id, event.key_id].every((id) => id === null || UUID.test(id));
  const texts = event.method.length <= 16 && event.path.length <= 2048 && (event.route?.length ?? 0) <= 512;
  const figures =
    Number.isInteger(event.status) && event.status >= 100 && event.status <= 599 && event.duration_ms >= 0;
  const times = new Date(event.ts).toISOString() === event.ts;
  const known = (event.env === "live" || event.env === "test") && typeof event.degraded === "boolean";
  return ids && texts && figures && times && known && event.request_id.length > 0 && event.request_id.length <= 128;
}
