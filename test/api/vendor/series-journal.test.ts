// The journal of usage series is read in pieces: its rows together may be larger than memory.
import { describe, expect, it, vi } from "vitest";
import { foldJournal } from "../../../src/domain/usage/series-fold.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

for (const back of backends) {
  describe(`the journal of usage series on ${back}`, () => {
    it("reads no more of the journal at once than fits into little memory", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const data = JSON.stringify({ texts: ["x".repeat(400_000)], slices: [] });
      const marks = back === "sqlite" ? "?, ?, ?, ?" : "$1, $2, $3, $4";
      for (let i = 0; i < 6; i++)
        await r.sql(`insert into usage_journal (id, workspace_id, created_at, data) values (${marks})`, [
          r.app.services.newId(),
          w.id,
          r.clock.now(),
          data,
        ]);
      const spy = vi.spyOn(r.app.services.store.read, "all");
      await foldJournal(r.app.services);
      const answers = await Promise.all(spy.mock.results.map(({ value }) => value as Promise<{ data?: string }[]>));
      spy.mockRestore();
      const sizes = answers.map((rows) => rows.reduce((sum, row) => sum + (row.data?.length ?? 0), 0));
      expect(sizes.reduce((sum, each) => sum + each, 0)).toBe(6 * data.length);
      expect(Math.max(...sizes)).toBeLessThan(1_100_000);
    });
  });
}
