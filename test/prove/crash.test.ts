// The short versions of `npm run prove -- crash` and `-- series`: one kill each, by default on one database. On SQLite,
// power cuts (disk.test.ts) end the process in the same way and forget more.
import { describe, expect, it } from "vitest";
import { crash } from "../../prove/crash.ts";
import { seriesCampaign } from "../../prove/series.ts";
import { databasesOf, shortRun } from "./short.ts";

describe.concurrent("kill -9 under mixed load", () => {
  for (const backend of databasesOf("postgres")) {
    it(`loses nothing acknowledged on ${backend} and leaves the chain intact`, async () => {
      const { figures } = await shortRun(crash, backend, 1, 7);
      expect(figures).toMatchObject({ lost: 0 });
      expect(figures.acknowledged).toBeGreaterThanOrEqual(1);
    });
  }

  for (const backend of databasesOf("sqlite")) {
    it(`counts every batch once in every usage series on ${backend}, killed in the middle of a fold`, async () => {
      const { figures } = await shortRun(seriesCampaign, backend, 1, 9);
      expect(figures.batches).toBe(240);
    });
  }
});
