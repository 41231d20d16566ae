// Mixed versions: what an earlier release would ignore is not stored while one is connected.
import { describe, expect, it, vi } from "vitest";
import { VersionGate } from "../../../src/domain/core/version-gate.ts";
import { connectPostgres } from "../../../src/store/postgres/client.ts";
import { APPLICATION_NAME, toVersions } from "../../../src/store/postgres/connected-versions.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";
import { VERSION } from "../../../src/platform/version.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";

const gateOf = () => new VersionGate({ made_up: "0.1.0", unreleased: "999.0.0", first: "0.0.0" });
const REFUSED = {
  status: 409,
  code: "conflict",
  message: "An older Keyrack process is still connected. Finish the upgrade first.",
};

/** A connection as a process of another version has it, which ends as that process would. */
async function connect(target: DatabaseTarget, application_name: string): Promise<{ end(): Promise<void> }> {
  if (target.kind !== "postgres") throw new Error("not PostgreSQL");
  const client = await connectPostgres(target.url, { application_name });
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return {
    async end() {
      await client.end();
      // The server notices the end of a connection a moment later.
      await expect.poll(() => isConnected(target.url, rows[0]?.pid ?? 0)).toBe(false);
    },
  };
}

async function isConnected(url: string, pid: number): Promise<boolean> {
  const client = await connectPostgres(url);
  const { rows } = await client.query("select 1 from pg_stat_activity where pid = $1", [pid]);
  await client.end();
  return rows.length > 0;
}

const moveOn = ({ clock }: TestServices): void => clock.advance(1_000);

describe("connected versions", () => {
  it("are distinct and ascending by number; a name without a version is 0.1", () => {
    const rows = ["keyrack/0.10.0", "keyrack/0.9.1", "keyrack", "keyrack/0.9.1"].map((name) => ({ name }));
    expect(toVersions(rows)).toEqual(["0.1", "0.9.1", "0.10.0"]);
  });

  for (const backend of runBackends) {
    it(`include this process on ${backend}`, async () => {
      await using fixture = await testServices(backend);
      expect(await fixture.services.store.connectedVersions()).toEqual([VERSION]);
    });
  }
});

describe("the version gate on SQLite", () => {
  it("is open: no other process uses the database", async () => {
    await using fixture = await testServices("sqlite");
    for (const feature of ["made_up", "unreleased"] as const)
      await expect(gateOf().assertKnownEverywhere(fixture.services, feature)).resolves.toBeUndefined();
  });
});

describe.runIf(runBackends.includes("postgres"))("the version gate on PostgreSQL", () => {
  it("refuses a feature while a process of an earlier release is connected, and opens when it is gone", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    const gate = gateOf();
    const older = await connect(target, "keyrack/0.0.9");
    await expect(gate.assertKnownEverywhere(services, "made_up")).rejects.toMatchObject(REFUSED);
    await gate.assertKnownEverywhere(services, "first"); // the older process knows this one
    await older.end();
    moveOn(fixture);
    await gate.assertKnownEverywhere(services, "made_up");
  });

  it("refuses what the next release brings beside any other version, but not beside its own", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    const gate = gateOf();
    await gate.assertKnownEverywhere(services, "unreleased");
    for (const name of ["keyrack", "keyrack/0.0.9"]) {
      const older = await connect(target, name);
      moveOn(fixture);
      await expect(gate.assertKnownEverywhere(services, "unreleased")).rejects.toMatchObject(REFUSED);
      await older.end();
    }
  });

  it("counts a name that is no version as the oldest, and ignores newer and foreign connections", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    const gate = gateOf();
    const others = [await connect(target, "keyrack/7.0.0"), await connect(target, "keyrack verify")];
    others.push(await connect(target, "psql"));
    await gate.assertKnownEverywhere(services, "made_up");
    const odd = await connect(target, "keyrack/next");
    moveOn(fixture);
    await expect(gate.assertKnownEverywhere(services, "made_up")).rejects.toMatchObject(REFUSED);
    await odd.end();
    for (const other of others) await other.end();
  });

  it("looks at most once a second, however often it is asked", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    const gate = gateOf();
    const look = vi.spyOn(services.store, "connectedVersions");
    const older = await connect(target, "keyrack/0.0.9");
    const ask = (): Promise<string> =>
      gate.assertKnownEverywhere(services, "made_up").then(
        () => "open",
        () => "closed",
      );
    expect(await Promise.all([ask(), ask(), ask()])).toEqual(["closed", "closed", "closed"]);
    await older.end();
    fixture.clock.advance(999);
    expect(await ask()).toBe("closed");
    expect(look).toHaveBeenCalledTimes(1);
    fixture.clock.advance(1);
    expect(await ask()).toBe("open");
    expect(look).toHaveBeenCalledTimes(2);
  });

  it("looks again after a look that failed, and is not open meanwhile", async () => {
    await using fixture = await testServices("postgres");
    const { services } = fixture;
    const gate = gateOf();
    vi.spyOn(services.store, "connectedVersions").mockRejectedValueOnce(new Error("away"));
    await expect(gate.assertKnownEverywhere(services, "made_up")).rejects.toThrow("away");
    await gate.assertKnownEverywhere(services, "made_up");
  });

  it("recognises every connection of a process, whatever name its URL gives", async () => {
    await using fixture = await testServices("postgres");
    const { target } = fixture;
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    await using other = await fixture.another({ ...target, url: `${target.url}?application_name=mine` });
    await other.services.store.ping(5_000);
    const rows = await fixture.sql(
      "select distinct application_name as name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    expect(rows).toEqual([{ name: APPLICATION_NAME }]);
  });
});
