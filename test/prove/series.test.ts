// The short version of `npm run prove -- series`: one kill, by default on one database.
import { expect, it } from "vitest";
import { seriesCampaign } from "../../prove/series.ts";
import { databasesOf, shortRun } from "./short.ts";

it.each(databasesOf("sqlite"))(
  "kill -9 during a fold counts every batch once in every usage series on %s",
  async (backend) => {
    const { figures } = await shortRun(seriesCampaign, backend, 1, 9);
    expect(figures.batches).toBe(240);
  },
);
