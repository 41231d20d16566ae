// Short versions of the campaigns on backups, flipped bits and copies.
import { describe, expect, it } from "vitest";
import { backupCampaign } from "../../prove/backup.ts";
import { copyCampaign } from "../../prove/copy.ts";
import { flipsCampaign } from "../../prove/flips.ts";
import { backends } from "../../harness/databases/backends.ts";
import { shortRun } from "./short.ts";

describe("backups, flipped bits and copies", () => {
  for (const back of backends) {
    it(`backups taken under load on ${back} restore completely`, async () => {
      const { figures } = await shortRun(backupCampaign, back, 1);
      expect(figures["restored and verified"]).toBe(1);
      expect(figures["writes acknowledged"]).toBeGreaterThan(50);
    });
  }

  it("a flipped bit in a backup or an audit row is detected", async () => {
    const { figures } = await shortRun(flipsCampaign, "sqlite", 6);
    expect(figures).toMatchObject({ "in backups": 3, "in audit rows": 3, found: 6 });
  });

  for (const back of backends.filter((each) => each === "postgres")) {
    it("a deployment is the same after it was copied to PostgreSQL and back", async () => {
      const { figures } = await shortRun(copyCampaign, back, 100);
      expect(figures["audit rows"]).toBeGreaterThan(100);
    });
  }
});
