// Old rows are deleted at most a piece at a time, and an index finds them.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { backends, readyDatabase } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import type { Statement } from "../../../src/store/engine/statement.ts";

const QUERIES = new URL("../../../src/store/queries/", import.meta.url);
/** Tables that stay small, whatever callers do. */
const SMALL: Record<string, string> = {
  reapSetupTokens: "only the operator makes them",
  reapProcesses: "one row a process",
  reapDigests: "one row a workspace, kept for a day",
  reapIdleRevocations: "at most one row a project and run of the job, kept for a day",
};

type Reaper = Statement<Record<string, string>, unknown>;
const reapers: [string, Reaper][] = [];
for (const file of readdirSync(QUERIES)) {
  const module = (await import(new URL(file, QUERIES).href)) as Record<string, Reaper>;
  reapers.push(
    ...Object.entries(module).filter(([name, value]) => name.startsWith("reap") && typeof value !== "function"),
  );
}
/** A literal that every type of column accepts. */
const params = new Proxy({}, { get: () => "1" }) as Record<string, string>;

describe("reapers", () => {
  it.each(reapers)("%s deletes no more rows at once than it is asked to", (_name, reaper) => {
    for (const dialect of ["sqlite", "postgres"] as const)
      expect(reaper.sql(dialect)).toMatch(/^delete from .* in \(select .* limit /s);
  });

  for (const backend of backends) {
    it(`find their rows by an index on ${backend}`, async () => {
      const database = await readyDatabase(backend);
      try {
        const large = reapers.filter(([name]) => !(name in SMALL));
        expect(large.length).toBeGreaterThan(15);
        for (const [, reaper] of large) await expectNoScan(database.target, (on) => reaper.all(on, params));
      } finally {
        await database.dispose();
      }
    });
  }
});
