// Telemetry as an SDK node sends it: an admitted live request, and a batch of events.
type Fields = Record<string, unknown>;

/** `own` names at least the project, the time and the request id, and may replace any field. */
export function telemetryEvent(own: { ts: string; project_id: string; request_id: string } & Fields): Fields {
  return { env: "live", method: "GET", path: "/", route: null, status: 200, duration_ms: 1, degraded: false, ...own };
}

export function telemetryBatch(events: unknown, own: Fields = {}): Fields {
  const sdk = { name: "keyrack", version: "1.0.0" };
  return { object: "ingest_batch", protocol_version: 1, node_id: "node-1", sdk, events, ...own };
}
