// Sends bodies that are costly to parse: deep, wide, and with very many names.
import { flood, type Attack } from "./attack.ts";

const MIB = 1024 * 1024;

export const largeBodies: Attack = {
  name: "hostile bodies",
  async run(stage) {
    const { call, key } = stage.attacker;
    const names = Array.from({ length: 20_000 }, (_, i) => `"n${i}":0`).join();
    const bodies: [string, string][] = [
      ["POST /v1/ingest/batch", "[".repeat(4 * MIB)],
      ["POST /v1/ingest/batch", `{"object":"ingest_batch","events":[${"[],".repeat(MIB)}[]]}`],
      ["POST /v1/idempotency/complete", "[".repeat(8 * MIB)],
      ["POST /v1/tenants", `{"external_id":"x","meta":{${names}}}`],
      ["POST /v1/keys", `{"a":"${'\\"'.repeat(100_000)}"}`],
    ];
    await flood(stage, { count: bodies.length * 2, width: 2 }, (i) => {
      const [route, raw] = bodies[i % bodies.length] as [string, string];
      return call(key, route, undefined, { raw });
    });
  },
};
