// A group commit on its own SQLite file, with one simple write.
import { GroupCommit } from "../../src/store/engine/group-commit.ts";
import { migrate } from "../../src/store/schema/migrate.ts";
import { SqliteDriver } from "../../src/store/sqlite/driver.ts";
import type { Tx } from "../../src/store/engine/tx.ts";

/** A writer without a store around it, so that a test can reach its connection. */
export async function openGroup(file: string, events: Partial<ConstructorParameters<typeof GroupCommit>[1]> = {}) {
  const driver = new SqliteDriver(file);
  await migrate(driver, { now: 1 });
  await driver.sync();
  const group = new GroupCommit(driver, { now: () => 1, committed: () => {}, fatal: () => {}, ...events });
  const insert = (name: string, value: string, how: "run" | "insertDeferred" = "run") =>
    group.submit({
      chains: [],
      batch: how === "insertDeferred",
      work: async (tx: Tx) => {
        await tx[how]({ sql: "insert into deployment (name, value) values (?, ?)", values: [name, value] });
        return { value: name, entries: [] };
      },
    });
  const names = async () =>
    (await driver.reader.all<{ name: string }>({ sql: "select name from deployment order by name", values: [] })).map(
      ({ name }) => name,
    );
  return { driver, group, insert, names };
}
