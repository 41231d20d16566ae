import { expect, it } from "vitest";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { OverviewCache, type Overview } from "../../../src/domain/workspaces/overview-cache.ts";

const FIGURES: Overview = {
  object: "overview",
  env: "live",
  generated_at: "2026-05-03T12:00:00.000Z",
  keys: { active: 1, expiring: 0, idle: 0, quarantined: 0 },
  leaks: { unreplaced: 0, stops_at: null },
  tenants: 1,
  projects: 1,
  nodes: { live: 0, current: 0 },
  first_verified_at: null,
  audit: { head_seq: 1, head_hash: "" },
};

it("computes the figures of a workspace and environment once in two seconds, and again after a failure", async () => {
  let [now, computed] = [0, 0];
  const cache = new OverviewCache({ now: () => now }, new Ledger({ bound: 10, share: 1 }));
  const read = (workspace: string, env: "live" | "test") =>
    cache.get({ workspace_id: workspace }, env, async () => {
      computed++;
      return FIGURES;
    });
  await Promise.all([read("one", "live"), read("one", "live")]);
  now = 1_999;
  await read("one", "live");
  expect(computed).toBe(1);
  await read("one", "test");
  await read("two", "live");
  expect(computed).toBe(3);
  now = 2_000;
  await read("one", "live");
  expect(computed).toBe(4);
  const failed = cache.get({ workspace_id: "three" }, "live", () => Promise.reject(new Error("down")));
  await expect(failed).rejects.toThrow("down");
  await read("three", "live");
  expect(computed).toBe(5);
});

it("charges all workspaces of an account to it", async () => {
  const ledger = new Ledger({ bound: 10, share: 1 });
  const cache = new OverviewCache({ now: () => 0 }, ledger);
  await cache.get({ workspace_id: "one", account_id: "founder" }, "live", async () => FIGURES);
  expect(ledger.owners().map(({ owner }) => owner.group)).toEqual(["founder"]);
});
