// Bodies that are costly to parse: deep, wide, with very many names or shapes of objects, and strings full of escapes.
import type { World } from "./instances/world.ts";

const MIB = 1024 * 1024;

type HostileBody = { path: string; body: string };

export function hostileBodies({ project_id, tenant_id }: Pick<World, "project_id" | "tenant_id">): HostileBody[] {
  const list = (count: number, item: (i: number) => string): string =>
    Array.from({ length: count }, (_, i) => item(i)).join();
  const names = (count: number, first = 0): string => list(count, (i) => `"n${first + i}":0`);
  const shuffledNames = (round: number): string => list(64, (i) => `"n${(round + i * (10 * round + 7)) % 2_000}":0`);
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
    batch(list(2_300, (i) => `{${names(64, i * 64)}}`)),
    batch(list(2_300, (i) => `{${shuffledNames(i)}}`)),
    batch(`"\\u0061",${list(148, (i) => `{${names(1_000, i * 1_000)}}`)}`),
    batch(`{${names(149_000)}}`),
    { path: "/v1/idempotency/complete", body: "[".repeat(8 * MIB) },
    { path: "/v1/tenants", body: `{"external_id":"x","meta":{${names(20_000)}}}` },
    { path: "/v1/keys", body: meta },
    { path: "/v1/keys", body: `{"a":"${'\\"'.repeat(100_000)}"}` },
  ];
}
