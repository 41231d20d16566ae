// The short versions of `npm run prove -- crash` and `-- series`: one kill of each on each database.
import { describe, expect, it } from "vitest";
import { crash } from "../../prove/crash.ts";
import { seriesCampaign } from "../../prove/series.ts";
import { backends } from "../../harness/databases/backends.ts";
import { shortRun } from "./short.ts";

describe.concurrent("kill -9 under mixed load", () => {
  for (const back of backends) {
    it(`loses nothing acknowledged on ${back} and leaves the chain intact`, async () => {
      const { figures } = await shortRun(crash, back, 1, 7);
      expect(figures).toMatchObject({ lost: 0 });
      expect(figures.acknowledged).toBeGreaterThanOrEqual(1);
    });

    it(`counts every batch once in every usage series on ${back}, killed in the middle of a fold`, async () => {
      const { figures } = await shortRun(seriesCampaign, back, 1, 9);
      expect(figures.batches).toBe(240);
    });
  }
});
