// Short versions of the campaigns on backups, flipped bits and copies.
import { describe, expect, it } from "vitest";
import { backupCampaign } from "../../prove/backup.ts";
import { copyCampaign } from "../../prove/copy.ts";
import { flipsCampaign } from "../../prove/flips.ts";
import { backends } from "../../harness/databases/backends.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { databasesOf, shortRun } from "./short.ts";

/** Flipped bits of each kind. */
const FLIPS = IS_NIGHT ? 6 : 3;

describe("backups, flipped bits and copies", () => {
  for (const backend of databasesOf("sqlite")) {
    it(`backups taken under load on ${backend} restore completely`, async () => {
      const { figures } = await shortRun(backupCampaign, backend, 1);
      expect(figures["restored and verified"]).toBe(1);
      expect(figures["writes meanwhile"]).toBeGreaterThan(0);
    });
  }

  it("a flipped bit in a backup or an audit row is detected", async () => {
    const { figures } = await shortRun(flipsCampaign, "sqlite", 2 * FLIPS);
    expect(figures).toMatchObject({ "in backups": FLIPS, "in audit rows": FLIPS, found: 2 * FLIPS });
  });

  for (const backend of backends.filter((each) => each === "postgres")) {
    it("a deployment is the same after it was copied to PostgreSQL and back", async () => {
      const { figures } = await shortRun(copyCampaign, backend, 100);
      expect(figures["audit rows"]).toBeGreaterThan(100);
    });
  }
});
