// The short version of `npm run prove -- neighbours`: every attack once, by default on one database.
import { describe, expect, it } from "vitest";
import { neighboursCampaign } from "../../prove/neighbours.ts";
import { attacks } from "../../prove/neighbours/index.ts";
import { databasesOf, shortRun } from "./short.ts";

describe.concurrent("attackers beside victims", () => {
  for (const backend of databasesOf("postgres")) {
    it(`change no answer on ${backend}`, async () => {
      const campaign = neighboursCampaign({
        perRound: attacks.length,
        atOnce: 3,
        quietMs: 100,
        strength: 0.005,
        pauseMs: 50,
        measured: false,
      });
      const { figures } = await shortRun(campaign, backend, 1, 4);
      expect(figures).toMatchObject({ "wrong answers": 0, attacks: attacks.length });
    });
  }
});
