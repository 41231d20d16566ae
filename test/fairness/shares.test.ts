// The metrics of shares name resources and kinds of owners, never an owner.
import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { cellOwner, networkOwner } from "../../src/fairness/owners.ts";
import { Shares, sharesTable, type Share } from "../../src/fairness/shares.ts";

describe("metrics of shares", () => {
  it("have a value for what can move alone, and refusals for each kind of owner, without any id", () => {
    const { settings } = loadSettings({ env: {}, flags: {}, cwd: tmpdir() });
    const shares = new Shares(settings);
    const owner = cellOwner("workspace-id", "live", "account-id");
    shares.of("leases").take(owner, 2_500);
    shares.of("leases").countRefusal(owner);
    shares.of("connections").countRefusal(networkOwner("192.0.2.1"));
    const families = Object.fromEntries(shares.families().map(({ name, samples }) => [name, samples]));
    const resourcesOf = (name: string) => new Set(families[name]?.map(({ labels }) => labels?.resource));
    const rows = Object.entries(sharesTable) as [string, Share][];
    const showing = (...shown: Share["shows"][]) =>
      new Set(rows.filter(([, { shows }]) => shown.includes(shows)).map(([resource]) => resource));
    const valueOf = (name: string, labels: object) =>
      families[name]?.find((sample) => JSON.stringify(sample.labels) === JSON.stringify(labels))?.value;
    expect(resourcesOf("keyrack_share_used")).toEqual(showing(undefined));
    expect(resourcesOf("keyrack_share_largest").add("loop")).toEqual(showing(undefined)); // loop has no bound
    expect(resourcesOf("keyrack_share_refused")).toEqual(showing(undefined, "refusals"));
    expect(valueOf("keyrack_share_used", { resource: "leases" })).toBe(2_500);
    expect(valueOf("keyrack_share_largest", { resource: "leases" })).toBe(0.25);
    expect(valueOf("keyrack_share_refused", { resource: "leases", owner: "cell" })).toBe(1);
    expect(valueOf("keyrack_share_refused", { resource: "connections", owner: "network" })).toBe(1);
    expect(JSON.stringify(families)).not.toMatch(/workspace-id|account-id|192\.0/);
  });
});
