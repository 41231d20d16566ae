// Bodies that are costly to parse: deep, wide, with very many names, and strings full of escapes.
import type { World } from "./instances/world.ts";

const MIB = 1024 * 1024;

export type HostileBody = { path: string; body: string };

export function hostileBodies({ project_id, tenant_id }: Pick<World, "project_id" | "tenant_id">): HostileBody[] {
  const names = (count: number): string => Array.from({ length: count }, (_, i) => `"n${i}":0`).join();
  const batch = (events: string): HostileBody => ({
    path: "/v1/ingest/batch",
    body: `{"object":"ingest_batch","events":[${events}]}`,
  });
  const meta = `{"project_id":"${project_id}","tenant_id":"${tenant_id}","env":"live","meta":{${names(9_000)}}}`;
  return [
    { path: "/v1/ingest/batch", body: "[".repeat(4 * MIB) },
    batch(`${"[],".repeat(MIB)}[]`),
    batch(`{"headers":{${names(400_000)}}}`),
    batch(`${"{},".repeat(70_000)}{}`), // just within the bound
    batch(`"${'\\"'.repeat(3 * MIB)}"`),
    { path: "/v1/idempotency/complete", body: "[".repeat(8 * MIB) },
    { path: "/v1/tenants", body: `{"external_id":"x","meta":{${names(20_000)}}}` },
    { path: "/v1/keys", body: meta },
    { path: "/v1/keys", body: `{"a":"${'\\"'.repeat(100_000)}"}` },
  ];
}
