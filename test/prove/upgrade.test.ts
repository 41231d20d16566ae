// The short version of `npm run prove -- upgrade`: one rolling upgrade from this checkout to a copy with another
// migration.
import { describe, expect, it } from "vitest";
import { upgrade } from "../../prove/upgrade.ts";
import { backends } from "../../harness/databases/backends.ts";
import { shortRun } from "./short.ts";

describe.skipIf(!backends.includes("postgres"))("a rolling upgrade under load", () => {
  it("loses nothing, fails no request of a process that stays, and survives a killed migration", {
    timeout: 300_000,
  }, async () => {
    const { figures } = await shortRun(upgrade, "postgres", 1);
    expect(figures).toMatchObject({ lost: 0, "killed migrations": 1 });
    expect(figures.acknowledged).toBeGreaterThan(50);
    expect(figures.receipts).toBeGreaterThan(3);
  });
});
