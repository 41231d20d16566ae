// The short version of `npm run prove -- bulk`.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { bulkCampaign } from "../../prove/bulk.ts";
import { shortRun } from "./short.ts";

const KEYS = 12;

describe.concurrent("a bulk change under kill -9", () => {
  for (const [back, action, seed] of [
    ["sqlite", "rotate", 1],
    ["postgres", "revoke", 2],
  ] as const) {
    it.runIf(backends.includes(back))(`is continued on ${back}: each key once, and every node follows`, async () => {
      const short = bulkCampaign({ keys: KEYS, limit: 1, killsPerAction: 1, actions: [action] });
      const { figures } = await shortRun(short, back, 1, seed);
      expect(figures["keys changed"]).toBe(KEYS);
      const kills = Number(figures["kills of the server"] ?? 0) + Number(figures["kills of the command"] ?? 0);
      expect(kills).toBeGreaterThan(0);
    });
  }
});
