// The short version of `npm run prove -- bulk`: a rotation on one database; at night revocations too, also
// of successors, on each.
import { describe, expect, it } from "vitest";
import { bulkCampaign } from "../../prove/bulk.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { databasesOf, shortRun } from "./short.ts";

const KEYS = 12;

describe.concurrent("a bulk change under kill -9", () => {
  for (const backend of databasesOf("sqlite")) {
    it(`is continued on ${backend}: each key once, and every node follows`, async () => {
      const actions = IS_NIGHT ? (["rotate", "revoke"] as const) : (["rotate"] as const);
      const short = bulkCampaign({ keys: KEYS, limit: 1, killsPerAction: 1, actions });
      const { figures } = await shortRun(short, backend, 1);
      expect(figures["keys changed"]).toBe(IS_NIGHT ? KEYS + 2 * KEYS : KEYS); // successors are revoked too
      const kills = Number(figures["kills of the server"] ?? 0) + Number(figures["kills of the command"] ?? 0);
      expect(kills).toBeGreaterThan(0);
    });
  }
});
