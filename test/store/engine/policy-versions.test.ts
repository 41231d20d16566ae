// Policy versions within one group, on a transaction that only records writes.
import { describe, expect, it } from "vitest";
import type { Query, Row, Tx } from "../../../src/store/engine/tx.ts";
import { PolicyVersions, type Undo } from "../../../src/store/engine/policy-versions.ts";

/**
 * Every project is at version 7 until a test changes that. A write of a project is noted as `policy_version`, its
 * version, min_delta_version, features and id.
 */
function transaction() {
  const written: string[] = [];
  const stored = { row: { policy_version: 7 } as object | undefined, reads: 0 };
  const note = (sql: string, values: Row): void => {
    const what = /policy_versions|policy_version/.exec(sql)?.[0] ?? sql;
    written.push(`${what} ${values.map((value) => value ?? "-").join(" ")}`);
  };
  const tx = {
    dialect: "sqlite",
    first: async () => {
      stored.reads++;
      return stored.row;
    },
    run: async ({ sql, values }: Query) => {
      note(sql, values);
      return 1;
    },
    insertMany: async (sql: string, rows: readonly Row[]) => {
      for (const row of rows) note(sql, row);
    },
  } as unknown as Tx;
  return { tx, written, stored };
}

describe("the policy versions of a group", () => {
  it("continue from the stored version, are all logged, and are written to the project once", async () => {
    const { tx, written, stored } = transaction();
    const versions = new PolicyVersions();
    const undo: Undo[] = [];
    const bumped = [];
    for (let i = 0; i < 3; i++) bumped.push(await versions.bump(tx, "p", {}, undo));
    bumped.push(await versions.bump(tx, "q", {}, undo));
    expect([bumped, stored.reads]).toEqual([[8, 9, 10, 8], 2]);
    expect(await versions.write(tx, 99)).toEqual([
      { project_id: "p", version: 10 },
      { project_id: "q", version: 8 },
    ]);
    expect(written).toEqual([
      "policy_version 10 - 0 p",
      "policy_versions 8 10 p 99", // from the first to the last
      "policy_version 8 - 0 q",
      "policy_versions 8 8 q 99",
    ]);
    written.length = 0;
    expect([await versions.write(tx, 100), written]).toEqual([[], []]);
    expect(await versions.bump(tx, "p", {}, undo)).toBe(11);
    expect(await versions.write(tx, 101)).toEqual([{ project_id: "p", version: 11 }]);
    expect(written).toEqual(["policy_version 11 - 0 p", "policy_versions 11 11 p 101"]);
  });

  it("advance min_delta_version to the last bump with forgetDeltas, once", async () => {
    const { tx, written } = transaction();
    const versions = new PolicyVersions();
    for (const forget of [true, true, false]) await versions.bump(tx, "p", { forgetDeltas: forget }, []);
    await versions.write(tx, 1);
    await versions.bump(tx, "p", {}, []);
    await versions.write(tx, 2);
    expect(written.filter((what) => what.endsWith(" p"))).toEqual([
      "policy_version 10 9 0 p",
      "policy_version 11 - 0 p",
    ]);
  });

  it("add the features of all bumps to the project once, without those of a failed job", async () => {
    const { tx, written } = transaction();
    const versions = new PolicyVersions();
    const undo: Undo[] = [];
    await versions.bump(tx, "p", { uses: 2 }, []);
    await versions.bump(tx, "p", { uses: 4 }, undo);
    versions.undo(undo);
    await versions.bump(tx, "p", { uses: 1 }, []);
    await versions.write(tx, 1);
    await versions.bump(tx, "p", { uses: 4 }, []);
    await versions.discardUnwritten();
    await versions.bump(tx, "p", {}, []);
    await versions.write(tx, 2);
    expect(written.filter((what) => what.endsWith(" p"))).toEqual([
      "policy_version 9 - 3 p",
      "policy_version 10 - 0 p",
    ]);
  });

  it("return to their state before a failed job, including min_delta_version", async () => {
    const { tx, written } = transaction();
    const versions = new PolicyVersions();
    await versions.bump(tx, "p", { forgetDeltas: true }, []);
    const undo: Undo[] = [];
    for (const forget of [false, true]) await versions.bump(tx, "p", { forgetDeltas: forget }, undo);
    versions.undo(undo);
    expect(undo).toEqual([]);
    expect(await versions.write(tx, 1)).toEqual([{ project_id: "p", version: 8 }]);
    expect(written).toEqual(["policy_version 8 8 0 p", "policy_versions 8 8 p 1"]);
  });

  it("return to the written state after a failed batch, even when a read failed too", async () => {
    const { tx, written, stored } = transaction();
    const versions = new PolicyVersions();
    await versions.bump(tx, "p", {}, []);
    await versions.write(tx, 1);
    written.length = 0;
    for (const forget of [true, false]) await versions.bump(tx, "p", { forgetDeltas: forget }, []);
    stored.row = undefined;
    const failing = versions.bump(tx, "gone", {}, []);
    await Promise.all([expect(failing).rejects.toThrow("no project"), versions.discardUnwritten()]);
    expect([await versions.write(tx, 2), written]).toEqual([[], []]);
    expect(await versions.bump(tx, "p", {}, [])).toBe(9);
    await versions.write(tx, 3);
    expect(written).toEqual(["policy_version 9 - 0 p", "policy_versions 9 9 p 3"]);
  });

  it("are read again after a failed read", async () => {
    const { tx, stored } = transaction();
    const versions = new PolicyVersions();
    stored.row = undefined;
    await expect(versions.bump(tx, "p", {}, [])).rejects.toThrow("no project p");
    stored.row = { policy_version: 1 };
    expect(await versions.bump(tx, "p", {}, [])).toBe(2);
  });
});
