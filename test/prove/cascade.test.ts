// The short version of `npm run prove -- cascade`: one deletion of a few thousand keys, by default on
// one database.
import { describe, expect, it } from "vitest";
import { cascadeCampaign } from "../../prove/cascade.ts";
import { databasesOf, shortRun } from "./short.ts";

describe.concurrent("kill -9 while the keys of a deleted project are marked", () => {
  for (const backend of databasesOf("sqlite")) {
    it(`changes no answer on ${backend}`, async () => {
      const { figures } = await shortRun(cascadeCampaign({ keys: 3_000, timed: false }), backend, 1, 3);
      expect(figures).toHaveProperty("longest write ms");
    });
  }
});
