// The journal of usage series is read in pieces, because its rows together may be larger than memory, and by workspaces
// in turn.
import { describe, expect, it, vi } from "vitest";
import { SeriesBatch } from "../../../src/domain/series/batch.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import type { JournalData } from "../../../src/domain/series/journal.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import type { Store } from "../../../src/store/store.ts";

const EVENT = { env: "live", tenant_id: "t", method: "GET", route: "/", status: 200, duration_ms: 1 } as const;

for (const backend of runBackends) {
  describe(`the journal of usage series on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const insert = async (workspace: Workspace, data: string, rows = 1): Promise<void> => {
      const values = Array.from(
        { length: rows },
        () => `('${instance.app.services.newId()}', '${workspace.id}', 0, '${data}')`,
      );
      await instance.sql(`insert into usage_journal (id, workspace_id, created_at, data) values ${values.join()}`);
    };
    const journal = async (workspace: Workspace, text: string, rows: number): Promise<number> => {
      const data = JSON.stringify({ texts: [text], slices: [] });
      await insert(workspace, data, rows);
      return data.length;
    };
    const report = async (workspace: Workspace, routes: string[], env = "live"): Promise<void> => {
      const batch = new SeriesBatch();
      const event = { ...EVENT, project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: env as "live" };
      for (const route of routes) batch.add({ ...event, route }, undefined, instance.clock.now(), 1);
      for (const row of batch.encode()) await insert(workspace, row);
    };
    const workspacesLeft = async (): Promise<unknown[]> =>
      (await instance.sql("select distinct workspace_id as id from usage_journal")).map(({ id }) => id);

    it("reads no more of the journal at once than fits into little memory", async () => {
      const length = await journal(await instance.workspace(), "x".repeat(400_000), 6);
      const spy = vi.spyOn(instance.app.services.store.read, "all");
      await foldJournal(instance.app.services);
      const answers = await Promise.all(spy.mock.results.map(({ value }) => value as Promise<{ data?: string }[]>));
      spy.mockRestore();
      const sizes = answers.map((rows) => rows.reduce((sum, row) => sum + (row.data?.length ?? 0), 0));
      expect(sizes.reduce((sum, each) => sum + each, 0)).toBe(6 * length);
      expect(Math.max(...sizes)).toBeLessThan(1_100_000);
    });

    it("adds what a workspace has reported with the first rows of one that reports very much", async () => {
      await journal(await instance.workspace(), "much", 250);
      const small = await instance.workspace();
      await journal(small, "little", 2);
      const { store } = instance.app.services;
      const write = vi.fn<Store["write"]>((job) => store.write(job)).mockRejectedValue(new Error("stop"));
      write.mockImplementationOnce((job) => store.write(job));
      const stopped = Object.create(store, { write: { value: write } }) as Store;
      await expect(foldJournal({ ...instance.app.services, store: stopped })).rejects.toThrow("stop");
      expect(await workspacesLeft()).not.toContain(small.id);
      await foldJournal(instance.app.services);
      expect(await workspacesLeft()).toEqual([]);
    });

    it.each([
      ["an unknown environment", (workspace: Workspace) => report(workspace, ["/"], "neither")],
      ["a truncated row", (workspace: Workspace) => insert(workspace, '{"texts":["')],
      ["a row without its fields", (workspace: Workspace) => insert(workspace, "{}")],
    ])("adds the rows of every other workspace when those of one cannot be added: %s", async (_what, breakRow) => {
      const [first, broken, last] = [
        await instance.workspace(),
        await instance.workspace(),
        await instance.workspace(),
      ];
      await breakRow(broken);
      for (const _ of [1, 2]) {
        for (const workspace of [first, last]) await report(workspace, ["/"]);
        await expect(foldJournal(instance.app.services)).rejects.toThrow(broken.id);
        expect(await workspacesLeft()).toEqual([broken.id]);
      }
      await instance.sql("delete from usage_journal");
    });
  });
}

it("divides the keys of large batches into the same shards, and each sum is in one row", () => {
  const ids = Array.from(
    { length: 1_000 },
    (_, i) => `00000000-0000-4000-8000-${(i * 2_654_435).toString(16).padStart(12, "0")}`,
  );
  const rowsOf = (keys: readonly string[]): JournalData[] => {
    const batch = new SeriesBatch();
    const event = { ...EVENT, project_id: "p" };
    for (const id of keys)
      batch.add(event, { id, project_id: "p", tenant_id: "t", env: "live", created_at: 0, last_used_at: null }, 0, 1);
    return [...batch.encode()].map((row) => JSON.parse(row) as JournalData);
  };
  const shardsOf = (rows: JournalData[]): Map<string, number> =>
    new Map(rows.flatMap(({ texts, shard }) => texts.filter((text) => ids.includes(text)).map((id) => [id, shard])));
  const [rows, reversed] = [rowsOf(ids), rowsOf(ids.toReversed())];
  const sums = rows.flatMap(({ slices }) =>
    slices.flatMap(({ places }) => places.flatMap(({ owners }) => owners.filter((_, i) => i % 5 === 2))),
  );
  expect([sums.length, new Set(sums)]).toEqual([1_000, new Set([1])]);
  expect([shardsOf(rows).size, new Set(shardsOf(rows).values()).size]).toEqual([1_000, 8]);
  expect(shardsOf(reversed)).toEqual(shardsOf(rows));
  expect(rowsOf(ids.slice(0, 100)).map(({ shard }) => shard)).toEqual([0]);
});
