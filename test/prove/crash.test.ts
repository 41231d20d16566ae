// The short version of `npm run prove -- crash`: ten kills on each database.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { crash } from "../../prove/crash.ts";
import { backends, freshDatabase } from "../support/backends.ts";

const ROUNDS = 10;

describe.concurrent("kill -9 while keys are minted", () => {
  for (const back of backends) {
    it(`loses no acknowledged key on ${back} and leaves the chain whole`, { timeout: 180_000 }, async () => {
      const database = await freshDatabase(back);
      const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
      const { target } = database;
      const args = ["--data-dir", dir, ...(target.kind === "postgres" ? ["--database-url", target.url] : [])];
      const report = await crash({ rounds: ROUNDS, seed: 7, args });
      expect(report).toMatchObject({ lost: [], problems: [] });
      expect(report.acknowledged).toBeGreaterThan(ROUNDS);
      rmSync(dir, { recursive: true, force: true });
      await database.dispose();
    });
  }
});
