// The short version of `npm run prove -- bulk`: one action on each database, at night both, also of successors.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { ROUNDS } from "../../harness/rounds.ts";
import { bulkCampaign } from "../../prove/bulk.ts";
import { shortRun } from "./short.ts";

const KEYS = 12;
const IS_NIGHT = ROUNDS >= 50;

describe.concurrent("a bulk change under kill -9", () => {
  for (const [back, action, seed] of [
    ["sqlite", "rotate", 1],
    ["postgres", "revoke", 2],
  ] as const) {
    it.runIf(backends.includes(back))(`is continued on ${back}: each key once, and every node follows`, async () => {
      const actions = IS_NIGHT ? (["rotate", "revoke"] as const) : [action];
      const short = bulkCampaign({ keys: KEYS, limit: 1, killsPerAction: 1, actions });
      const { figures } = await shortRun(short, back, 1, seed);
      expect(figures["keys changed"]).toBe(IS_NIGHT ? KEYS + 2 * KEYS : KEYS); // successors are revoked too
      const kills = Number(figures["kills of the server"] ?? 0) + Number(figures["kills of the command"] ?? 0);
      expect(kills).toBeGreaterThan(0);
    });
  }
});
