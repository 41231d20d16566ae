// The short version of `npm run prove -- neighbours`: every attack once, by default on one of the databases.
import { describe, expect, it } from "vitest";
import { neighboursCampaign } from "../../prove/neighbours.ts";
import { attacks } from "../../prove/neighbours/index.ts";
import { backends } from "../../harness/databases/backends.ts";
import { ROUNDS } from "../../harness/rounds.ts";
import { shortRun } from "./short.ts";

describe.concurrent("attackers beside victims", () => {
  const parts = ROUNDS < 50 ? backends.length : 1;
  for (const [part, back] of backends.entries()) {
    it(`change no answer on ${back}`, async () => {
      const from = attacks.filter((_, i) => i % parts === part % parts);
      const campaign = neighboursCampaign({
        from,
        perRound: from.length,
        atOnce: 3,
        quietMs: 100,
        strength: 0.005,
        pauseMs: 50,
        measured: false,
      });
      const { figures } = await shortRun(campaign, back, 1, 4);
      expect(figures).toMatchObject({ "wrong answers": 0, attacks: from.length });
    });
  }
});
