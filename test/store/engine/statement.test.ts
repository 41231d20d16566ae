// Statements: compiled once, bound by name, and the same values on both databases.
import { describe, expect, it } from "vitest";
import { record } from "../../../src/domain/core/record.ts";
import { insertReplay, replayByKey } from "../../../src/store/queries/idempotency-replays.ts";
import { columns, selectRows, statement } from "../../../src/store/engine/statement.ts";
import type { Query, Reader } from "../../../src/store/engine/tx.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

/** Records queries and returns no rows. */
function recorder(dialect: "sqlite" | "postgres"): Reader & { queries: Query[] } {
  const queries: Query[] = [];
  const first = async (query: Query): Promise<undefined> => {
    queries.push(query);
    return undefined;
  };
  const all = async (query: Query): Promise<never[]> => {
    queries.push(query);
    return [];
  };
  return { dialect, queries, all, first, firstMemoized: first };
}

const between = statement<{ workspace_id: string; from: number; name: string | null }>()((db, p) =>
  db
    .selectFrom("tenants")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("created_at", ">=", p.from)
    .where("updated_at", ">=", p.from)
    .where("embed_epoch", "=", 7)
    .where("name", "is not distinct from", p.name),
);

describe("a statement", () => {
  it("binds values by name, twice where a name is used twice", async () => {
    const on = recorder("sqlite");
    await between.all(on, { workspace_id: "w", from: 5, name: null });
    await between.all(on, { name: "n", from: 6, workspace_id: "v" });
    expect(on.queries.map(({ values }) => values)).toEqual([
      ["w", 5, 5, 7, null],
      ["v", 6, 6, 7, "n"],
    ]);
  });

  it("has the same text at every call, so that it stays prepared", async () => {
    const on = recorder("postgres");
    await between.all(on, { workspace_id: "w", from: 5, name: null });
    await between.all(on, { workspace_id: "v", from: 6, name: "n" });
    expect(on.queries[0]?.sql).toBe(on.queries[1]?.sql);
    expect(on.queries[0]?.sql).toBe(between.sql("postgres"));
  });

  it("differs between the databases in its placeholders only", () => {
    const [sqlite, postgres] = [between.sql("sqlite"), between.sql("postgres")];
    expect(postgres.replace(/\$\d+/g, "?")).toBe(sqlite);
  });

  it("accepts columns() for set and values", () => {
    const insert = statement<{ id: string; note: string }>()((db, p) =>
      db
        .updateTable("audit_checkpoints")
        .set(columns(p, ["note"]))
        .where("workspace_id", "=", p.id),
    );
    expect(insert.sql("sqlite")).toBe('update "audit_checkpoints" set "note" = ? where "workspace_id" = ?');
  });
});

for (const backend of backends) {
  describe(`values on ${backend}`, () => {
    it("round-trip: integers, text, bytes and null", async () => {
      await using fixture = await testServices(backend);
      const row = {
        key_hash: "h",
        fingerprint: "naïve \u{1f511} 'quoted' \\ \n",
        status: 201,
        sealed_body: Uint8Array.of(0, 1, 254, 255),
        created_at: 253_402_300_799_999,
        expires_at: Number.MAX_SAFE_INTEGER,
      };
      await record(fixture.services, (tx) => insertReplay.run(tx, row));
      const found = await replayByKey.first(fixture.services.store.read, { key_hash: "h", now: 0 });
      expect({ ...found, sealed_body: new Uint8Array(found?.sealed_body ?? []) }).toEqual(row);
      expect(await replayByKey.first(fixture.services.store.read, { key_hash: "none", now: 0 })).toBeUndefined();
    });

    it("return the number of rows that a write changed", async () => {
      await using fixture = await testServices(backend);
      await vendorOf(fixture.services);
      const rename = statement<{ name: string }>()((db, p) => db.updateTable("workspaces").set({ name: p.name }));
      expect(await record(fixture.services, (tx) => rename.run(tx, { name: "new" }))).toBe(1);
    });

    it("sort by code point, whatever the server's locale", async () => {
      await using fixture = await testServices(backend);
      for (const slug of ["b", "B", "a", "_", "A"]) await vendorOf(fixture.services, "live", slug);
      const { read } = fixture.services.store;
      const rows = await selectRows(read, (db) => db.selectFrom("workspaces").select("slug").orderBy("slug"));
      expect(rows.map(({ slug }) => slug)).toEqual(["A", "B", "_", "a", "b"]);
    });

    it("cannot be changed through the reader", async () => {
      await using fixture = await testServices(backend);
      const write = { sql: "delete from workspaces returning id", values: [] };
      await expect(fixture.services.store.read.all(write)).rejects.toThrow(/read-?only/);
    });
  });
}
