// The journal of usage series is read in pieces, because its rows together may be larger than memory, and by workspaces in turn.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SeriesBatch } from "../../../src/domain/usage/series-batch.ts";
import { foldJournal } from "../../../src/domain/usage/series-fold.ts";
import type { JournalData } from "../../../src/domain/usage/series-journal.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testInstance, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import type { Store } from "../../../src/store/store.ts";

for (const back of backends) {
  describe(`the journal of usage series on ${back}`, () => {
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back);
    });
    afterAll(() => r[Symbol.asyncDispose]());

    const journal = async (w: Workspace, text: string, rows: number): Promise<number> => {
      const data = JSON.stringify({ texts: [text], slices: [] });
      const values = Array.from({ length: rows }, () => `('${r.app.services.newId()}', '${w.id}', 0, '${data}')`);
      await r.sql(`insert into usage_journal (id, workspace_id, created_at, data) values ${values.join()}`);
      return data.length;
    };

    it("reads no more of the journal at once than fits into little memory", async () => {
      const length = await journal(await r.workspace(), "x".repeat(400_000), 6);
      const spy = vi.spyOn(r.app.services.store.read, "all");
      await foldJournal(r.app.services);
      const answers = await Promise.all(spy.mock.results.map(({ value }) => value as Promise<{ data?: string }[]>));
      spy.mockRestore();
      const sizes = answers.map((rows) => rows.reduce((sum, row) => sum + (row.data?.length ?? 0), 0));
      expect(sizes.reduce((sum, each) => sum + each, 0)).toBe(6 * length);
      expect(Math.max(...sizes)).toBeLessThan(1_100_000);
    });

    it("adds what a workspace has reported with the first rows of one that reports very much", async () => {
      await journal(await r.workspace(), "much", 250);
      const small = await r.workspace();
      await journal(small, "little", 2);
      const { store } = r.app.services;
      const write = vi.fn<Store["write"]>((job) => store.write(job)).mockRejectedValue(new Error("stop"));
      write.mockImplementationOnce((job) => store.write(job));
      const stopped = Object.create(store, { write: { value: write } }) as Store;
      await expect(foldJournal({ ...r.app.services, store: stopped })).rejects.toThrow("stop");
      const left = `select workspace_id, count(*) as n from usage_journal group by workspace_id`;
      expect((await r.sql(left)).map(({ workspace_id }) => workspace_id)).not.toContain(small.id);
      await foldJournal(r.app.services);
      expect(await r.sql(left)).toEqual([]);
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
    const event = {
      project_id: "p",
      env: "live",
      tenant_id: "t",
      method: "GET",
      route: "/",
      status: 200,
      duration_ms: 1,
    } as const;
    for (const id of keys)
      batch.add(event, { id, project_id: "p", tenant_id: "t", env: "live", created_at: 0, last_used_at: null }, 0, 1);
    return [...batch.encode()].map((row) => JSON.parse(row) as JournalData);
  };
  const shardsOf = (rows: JournalData[]): Map<string, number> =>
    new Map(
      rows.flatMap(({ texts, shard = 0 }) => texts.filter((text) => ids.includes(text)).map((id) => [id, shard])),
    );
  const [rows, reversed] = [rowsOf(ids), rowsOf(ids.toReversed())];
  const sums = rows.flatMap(({ slices }) =>
    slices.flatMap(({ places }) => places.flatMap(({ owners }) => owners.filter((_, i) => i % 5 === 2))),
  );
  expect([sums.length, new Set(sums)]).toEqual([1_000, new Set([1])]);
  expect([shardsOf(rows).size, new Set(shardsOf(rows).values()).size]).toEqual([1_000, 8]);
  expect(shardsOf(reversed)).toEqual(shardsOf(rows));
  expect(rowsOf(ids.slice(0, 100)).map(({ shard }) => shard)).toEqual([0]);
});
