// The bound on the networks of a key and day: the same decisions as a model that knows every stored network, from few
// rows.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { seeded, type Random } from "../../../harness/random.ts";
import { record } from "../../../src/domain/core/record.ts";
import { saveNetworks } from "../../../src/domain/usage/key-networks.ts";
import type { Query, Tx } from "../../../src/store/engine/tx.ts";
import type { KeyNetworkRow } from "../../../src/store/schema/tables.ts";

const NETWORKS_MAX = 100;
const SEEDS = [1, 2, 3, 4];
const BATCHES = 12;
const ROWS_MAX = 250;

type Sums = Map<string, KeyNetworkRow>;
const idOf = ({ key_id, day, network, outcome }: KeyNetworkRow): string => `${key_id} ${day} ${network} ${outcome}`;
const isNamed = ({ network }: KeyNetworkRow): boolean => network !== "other" && network !== "unknown";

function add(sums: Sums, row: KeyNetworkRow): void {
  const before = sums.get(idOf(row)) ?? { ...row, requests: 0 };
  sums.set(idOf(row), {
    ...before,
    requests: before.requests + row.requests,
    first_seen_at: Math.min(before.first_seen_at, row.first_seen_at),
    last_seen_at: Math.max(before.last_seen_at, row.last_seen_at),
  });
}

/** Looks at everything that is stored, for each row. */
function saveNaively(stored: Sums, rows: readonly KeyNetworkRow[]): void {
  for (const row of rows) {
    const ofDay = [...stored.values()].filter(({ key_id, day }) => key_id === row.key_id && day === row.day);
    const named = new Set(ofDay.filter(isNamed).map(({ network }) => network));
    const fits = !isNamed(row) || named.has(row.network) || named.size < NETWORKS_MAX;
    add(stored, fits ? row : { ...row, network: "other" });
  }
}

function batchOf(random: Random, workspace_id: string, keys: readonly string[]): KeyNetworkRow[] {
  const rows: Sums = new Map();
  for (let i = random.int(1, ROWS_MAX); i > 0; i--) {
    const at = random.int(1, 1_000);
    add(rows, {
      key_id: random.pick(keys),
      day: random.int(7, 8),
      network: random.next() < 0.1 ? "unknown" : `198.51.${random.int(0, 130)}.0/24`,
      outcome: random.pick(["refused", "would_refuse"]),
      workspace_id,
      requests: random.int(1, 9),
      first_seen_at: at,
      last_seen_at: at,
    });
  }
  return [...rows.values()];
}

for (const backend of runBackends) {
  describe(`networks of keys on ${backend}`, () => {
    const fixture = sharedServices(backend);
    const save = (rows: readonly KeyNetworkRow[]) => record(fixture().services, (tx) => saveNetworks(tx, rows));
    const storedRows = (workspace_id: string) =>
      fixture().services.store.read.all<KeyNetworkRow>({
        sql: `select * from key_networks where workspace_id = '${workspace_id}'`,
        values: [],
      });

    it.each(SEEDS)("are bounded as by a model that knows all of them, seed %i", async (seed) => {
      const random = seeded(seed);
      const { workspace_id } = (await vendorOf(fixture().services)).actor;
      const keys = ["a", "b"].map((name) => `${workspace_id}-${name}`);
      const model: Sums = new Map();
      for (let i = 0; i < BATCHES; i++) {
        const rows = batchOf(random, workspace_id, keys);
        saveNaively(model, rows);
        await save(rows);
      }
      const found = new Map((await storedRows(workspace_id)).map((row) => [idOf(row), row]));
      expect([...model.values()].some(({ network }) => network === "other")).toBe(true);
      expect(Object.fromEntries(found)).toEqual(Object.fromEntries(model));
    });

    it("are decided from as many rows as the batch has, however many its keys have on other days", async () => {
      const { workspace_id } = (await vendorOf(fixture().services)).actor;
      const keys = Array.from({ length: 5 }, (_, i) => `${workspace_id}-${i}`);
      const row = (key_id: string, day: number, network: string): KeyNetworkRow => {
        const sum = { requests: 1, first_seen_at: 1, last_seen_at: 1 };
        return { key_id, day, network, outcome: "refused", workspace_id, ...sum };
      };
      const network = (i: number): string => `198.51.${i}.0/24`;
      const days = Array.from({ length: 8 }, (_, day) => day);
      const all = Array.from({ length: NETWORKS_MAX }, (_, i) => network(i));
      await save(keys.flatMap((key) => days.flatMap((day) => all.map((name) => row(key, day, name)))));
      const batch = keys.flatMap((key) => [row(key, 0, network(7)), row(key, 7, network(200))]);
      let rows = 0;
      await record(fixture().services, (tx) => {
        const counting = {
          dialect: tx.dialect,
          run: (query: Query) => tx.run(query),
          all: async (query: Query) => {
            const found = await tx.all(query);
            rows += found.length;
            return found;
          },
        };
        return saveNetworks(counting as unknown as Tx, batch);
      });
      expect(rows).toBeLessThanOrEqual(batch.length);
    });
  });
}
