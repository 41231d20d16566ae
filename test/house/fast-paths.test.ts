// The benchmark of fast paths edits their source; an edit that no longer applies would measure nothing.
import { describe, expect, it } from "vitest";
import { COSTS, NOTICE_INSIDE, ONE_READ_A_POLL, SWITCHES } from "../../bench/fast-paths/switches.ts";
import { commentsIn, filesIn, readText } from "../../harness/repository.ts";

/** Files with a fast path of the server that no switch measures yet. The list only gets shorter. */
const UNMEASURED = [
  "src/domain/auth/credential-cache.ts",
  "src/domain/auth/credentials.ts",
  "src/domain/ingest/events.ts",
  "src/domain/keys/keys.ts",
  "src/domain/keys/scope-catalogue.ts",
  "src/domain/search/search-index.ts",
  "src/domain/workspaces/projects.ts",
  "src/domain/workspaces/tenants.ts",
  "src/http/fast/fast-path.ts",
  "src/http/pipeline.ts",
  "src/http/router.ts",
  "src/kernel/audit/chain.ts",
  "src/kernel/ids.ts",
  "src/kernel/policy/loader.ts",
  "src/ratelimit/memory/row-store.ts",
  "src/ratelimit/redis/scripts.ts",
  "src/store/engine/bulk-insert.ts",
  "src/store/engine/group-commit.ts",
  "src/store/engine/policy-versions.ts",
  "src/store/engine/statement.ts",
  "src/store/postgres/multi-row.ts",
  "src/store/postgres/reader.ts",
  "src/store/postgres/writer.ts",
  "src/store/queries/keys.ts",
  "src/store/sqlite/driver.ts",
  "src/store/sqlite/wal-sync.ts",
];

const VARIANTS = [
  { name: "one read a poll", edits: ONE_READ_A_POLL },
  { name: "notices inside the transaction", edits: NOTICE_INSIDE },
];

describe("the switches of `npm run bench -- fast-paths`, `neighbours`, `fleet` and `writers`", () => {
  for (const { name, edits } of [...SWITCHES, ...COSTS, ...VARIANTS]) {
    it(`apply to the source: ${name}`, () => {
      for (const { file, find } of edits) expect(readText(file).includes(find ?? ""), `${file}: ${find}`).toBe(true);
    });
  }

  it("measure every fast path of the server, or it is in the list of those that are not measured yet", () => {
    const declares = /\bFast path\b|\bbench: (?:[\w-]+\/[\w-]+, )*(?:parts|vendor|ratelimit)\//;
    const declaring = filesIn("src", ".ts").filter((file) => declares.test(commentsIn(readText(file)).join("\n")));
    const measured = SWITCHES.flatMap(({ name, edits }) => [
      ...edits.map(({ file }) => file),
      ...Array.from(name.matchAll(/`([\w/-]+\.ts)`/g), ([, file = ""]) => `src/${file}`),
    ]);
    expect(declaring.filter((file) => !measured.includes(file))).toEqual(UNMEASURED);
  });
});
