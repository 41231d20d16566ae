// A SQLite database that was not closed is looked at before it is written to again; a damaged one is only read.
import { openSync, readFileSync, writeFileSync, writeSync, closeSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { startInstance } from "../../src/server/start.ts";
import { createClient } from "../../src/client.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";

function fileOf(d: Deployment): string {
  if (d.target.kind !== "sqlite") throw new Error("not SQLite");
  return d.target.file;
}

/** As a process that was killed leaves it: the -wal is still there. */
const uncleanly = (d: Deployment): void => writeFileSync(`${fileOf(d)}-wal`, Buffer.alloc(32));

async function damage(d: Deployment): Promise<void> {
  const [row] = await rawSql(d.target, "select rootpage from sqlite_schema where name = 'usage_days_age'");
  const file = openSync(fileOf(d), "r+");
  writeSync(file, Buffer.alloc(100, 0xff), 0, 100, (Number(row?.rootpage) - 1) * 4_096);
  closeSync(file);
}

describe("a SQLite database that was not closed", () => {
  it("is checked at the next start, which says so; a closed one is not", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    await (await d.start()).stop();
    expect(d.logs.join()).not.toContain("quick check");
    uncleanly(d);
    await (await d.start()).stop();
    expect(d.logs.filter((line) => line.includes("quick check after an unclean stop: ok"))).toHaveLength(1);
  });

  it("is refused with 70 when it is damaged, and left as it is", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    await damage(d);
    uncleanly(d);
    const before = readFileSync(fileOf(d));
    await expect(d.start()).rejects.toMatchObject({
      exitCode: 70,
      message: expect.stringMatching(/damaged .*keyrack restore --force.*--force-read-only/) as string,
    });
    expect(readFileSync(fileOf(d)).equals(before)).toBe(true);
  });

  it("is read and not written to with --force-read-only", async () => {
    await using d = await deployment("sqlite");
    const first = await d.start();
    const shop = await setUpWorkspace(first, "readonly");
    await shop.mint();
    await first.stop();
    await damage(d);
    uncleanly(d);
    const before = readFileSync(fileOf(d));
    const app = await startInstance({ settings: d.settings(), log: d.log, checkOutput: true, forceReadOnly: true });
    const client = createClient({ url: app.url, bearer: shop.secretKey });
    expect((await client.call("GET /v1/keys", { query: {} })).data).toHaveLength(1);
    expect(await client.call("GET /v1/audit_logs/chain", {})).toMatchObject({ verified: true });
    await expect(client.call("POST /v1/tenants", { body: { external_id: "no" } })).rejects.toMatchObject({
      status: 503,
      code: "unavailable",
    });
    await app.stop();
    expect(readFileSync(fileOf(d)).equals(before)).toBe(true);
  });
});
