// Room for copies: the live database keeps enough of its disk.
import { describe, expect, it } from "vitest";
import { missingBytes, scratchDir } from "../../src/backup/room.ts";
import { MIB } from "../../src/kernel/sizes.ts";

describe("room for a copy", () => {
  it.each([
    ["leaves just what writes need", 1_200, 1_000, true, 0],
    ["would take the disk to where every write is refused", 900, 800, true, 100],
    ["may fill a disk that is not watched", 900, 900, false, 0],
    ["is larger than a disk that is not watched", 900, 901, false, 1],
  ])("when it %s", (_name, free, bytes, isWatched, missing) => {
    expect(missingBytes(free * MIB, bytes * MIB, isWatched)).toBe(missing * MIB);
  });

  it("is taken from the disk of the backups where they have their own, unless that is a network share", () => {
    const disks = {
      device: (path: string): number => (path.startsWith("/mnt") ? 2 : 1),
      network: (path: string): string | undefined => (path.startsWith("/mnt/share") ? "NFS" : undefined),
    };
    expect(scratchDir("/var/lib/keyrack", "/mnt/backups", disks)).toBe("/mnt/backups");
    expect(scratchDir("/var/lib/keyrack", "/var/backups", disks)).toBe("/var/lib/keyrack");
    expect(scratchDir("/var/lib/keyrack", "/mnt/share/backups", disks)).toBe("/var/lib/keyrack");
  });
});
