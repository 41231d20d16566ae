// Room for copies: the live database keeps enough of its disk.
import { describe, expect, it } from "vitest";
import { missingBytes, scratchDir } from "../../src/backup/room.ts";
import { MIB } from "../../src/kernel/sizes.ts";

describe("room for a copy", () => {
  it.each([
    ["leaves more than the reserve", 4_000, 1_000, 1_024, 0],
    ["would take the disk below the reserve", 2_000, 1_000, 1_024, 24],
    ["leaves enough on a disk that is below the reserve already", 900, 500, 1_024, 0],
    ["would take the disk to where every write is refused", 900, 800, 1_024, 100],
    ["would do so with a smaller reserve too", 900, 800, 50, 100],
    ["may fill a disk that is not watched", 900, 900, 0, 0],
    ["is larger than a disk that is not watched", 900, 901, 0, 1],
  ])("when it %s", (_name, free, bytes, reserve, missing) => {
    expect(missingBytes(free * MIB, bytes * MIB, reserve)).toBe(missing * MIB);
  });

  it("is taken from the disk of the backups where they have their own", () => {
    const device = (path: string): number => (path.startsWith("/mnt") ? 2 : 1);
    expect(scratchDir("/var/lib/keyrack", "/mnt/backups", device)).toBe("/mnt/backups");
    expect(scratchDir("/var/lib/keyrack", "/var/backups", device)).toBe("/var/lib/keyrack");
  });
});
