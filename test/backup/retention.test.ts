// Retention: 7 days, 4 weeks and 12 months, counted in periods that have a backup.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { writeManifest } from "../../src/backup/files.ts";
import { pruneBackups, selectKept, type DatedBackup } from "../../src/backup/retention.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";

const NOW = Date.UTC(2026, 10, 15, 3);
const at = (ms: number): DatedBackup => ({ id: new Date(ms).toISOString(), created_at: new Date(ms).toISOString() });
const daily = (days: number): DatedBackup[] => Array.from({ length: days }, (_, i) => at(NOW - i * DAY_MS));

describe("retention", () => {
  it("keeps the newest of 7 days, 4 weeks and 12 months out of two years of daily backups", () => {
    const ids = [...selectKept(daily(730))]
      .toSorted()
      .toReversed()
      .map((id) => id.slice(0, 10));
    expect(ids.slice(0, 7)).toEqual(
      Array.from({ length: 7 }, (_, i) => new Date(NOW - i * DAY_MS).toISOString().slice(0, 10)),
    );
    // Then the Sundays of earlier weeks and the last days of earlier months.
    expect(ids.slice(7)).toEqual([
      "2026-11-08",
      "2026-11-01",
      "2026-10-31",
      "2026-10-25",
      "2026-09-30",
      "2026-08-31",
      "2026-07-31",
      "2026-06-30",
      "2026-05-31",
      "2026-04-30",
      "2026-03-31",
      "2026-02-28",
      "2026-01-31",
      "2025-12-31",
    ]);
  });

  it("keeps the newest, and gives the same result when applied again", () => {
    const many = daily(100);
    const once = many.filter(({ id }) => selectKept(many).has(id));
    expect(once[0]).toEqual(many[0]);
    expect([...selectKept(once)].toSorted()).toEqual(once.map(({ id }) => id).toSorted());
    expect(selectKept([]).size).toBe(0);
    expect(selectKept([at(0)]).size).toBe(1);
  });

  it("keeps one of several on the same day, and old ones when there are no newer ones", () => {
    const hourly = Array.from({ length: 24 }, (_, i) => at(NOW - i * 3_600_000));
    const days = new Set([...selectKept(hourly)].map((id) => id.slice(0, 10)));
    expect(days.size).toBe(selectKept(hourly).size);
    const years = Array.from({ length: 3 }, (_, i) => at(NOW - i * 400 * DAY_MS));
    expect(selectKept(years).size).toBe(3);
  });

  it("keeps every backup from before a migration for 30 days beside the others, and then treats it as any other", () => {
    const before = (days: number): DatedBackup => {
      const { id, created_at } = at(NOW - days * DAY_MS - 3_600_000);
      return { id: `${id}-pre-7`, created_at };
    };
    const ordinary = daily(60);
    const without = selectKept(ordinary, NOW);
    const recent = [before(0), before(9), before(9.5), before(29.9)];
    const kept = selectKept([...ordinary, ...recent, before(30), before(47)], NOW);
    expect([...kept].toSorted()).toEqual([...without, ...recent.map(({ id }) => id)].toSorted());
    expect(selectKept([before(400)], NOW).size).toBe(1);
  });
});

describe("a backup made before an upgrade", () => {
  it("is kept for 30 days, the newest of each schema", () => {
    const made = (ms: number, schema_version: number) => ({ ...at(ms), schema_version });
    const [older, before] = [made(NOW - 20_000, 6), made(NOW - 10_000, 6)];
    const after = daily(40).map(({ created_at }) => made(Date.parse(created_at), 7));
    const without = selectKept(after, NOW);
    expect(selectKept([...after, older, before], NOW)).toEqual(new Set([...without, before.id]));
    const later = NOW + 30 * DAY_MS;
    expect(selectKept([...after, older, before], later)).toEqual(selectKept(after, later));
  });
});

describe("a backup past retention that cannot be removed", () => {
  it("is named, with the reason, unless another process is removing it", async () => {
    using temp = tempDir();
    const ids = ["20260101T000000Z-000001", "20260101T000000Z-000002", "20260101T000000Z-000003"];
    const contents = { schema_version: 1, master_key_fingerprint: null, rows: {}, audit_heads: [], checkpoints: [] };
    const file = { dialect: "sqlite", tool: null, file: "keyrack.db", bytes: 0, sha256: "" } as const;
    for (const id of ids) {
      const made = { id, created_at: "2026-01-01T00:00:00.000Z", keyrack: "0.1.0" };
      mkdirSync(join(temp.dir, id));
      writeFileSync(join(temp.dir, id, "keyrack.db"), "");
      await writeManifest(join(temp.dir, id), { object: "backup", format: 1, ...made, ...file, ...contents });
    }
    writeFileSync(join(temp.dir, `.${ids[1]}`), ""); // a rename fails, as on a read-only disk
    const prune = () => pruneBackups({ backup_dir: temp.dir, data_dir: temp.dir }, { deploymentId: null });
    await expect(prune()).rejects.toThrow(`Backup ${ids[1]} cannot be removed from ${temp.dir}: ENOTDIR.`);
    rmSync(join(temp.dir, `.${ids[1]}`));
    const both = await Promise.all([prune(), prune()]); // by the schedule and by a command
    expect(both.map(({ removed }) => removed)).toEqual([[ids[1], ids[0]], [ids[0]]]);
    expect(readdirSync(temp.dir)).toEqual([ids[2]]);
  });
});
