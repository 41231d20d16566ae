// An upgrade and the way back, as an operator does them: this checkout is the older version, on data of a released one,
// and a copy of it with another migration is the newer.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { send } from "../../harness/processes/send.ts";
import { openRelease, type ReleaseData } from "../../harness/instances/release-data.ts";
import { keyrack, keyrackProcess, refusedServe, type Ran } from "../../harness/processes/cli.ts";
import {
  makeNewerCheckout,
  NEXT_MIGRATION,
  NEXT_SCHEMA,
  NEXT_VERSION,
  type NewerCheckout,
} from "../../harness/processes/newer-checkout.ts";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { backends } from "../../harness/databases/backends.ts";
import { loadMigrations, schemaVersion } from "../../src/store/schema/migrate.ts";
import { VERSION } from "../../src/platform/version.ts";

let newer: NewerCheckout;
beforeAll(async () => {
  newer = await makeNewerCheckout();
});
afterAll(() => newer[Symbol.dispose]());

const argsOf = ({ dir, target }: ReleaseData): string[] => [
  "--data-dir",
  dir,
  ...(target.kind === "postgres" ? ["--database-url", target.url] : []),
];

/** The status of a mint, in the first workspace of the data. */
async function mint({ ready }: Running, { facts }: ReleaseData): Promise<number> {
  const { secret_keys, project_id, tenant_id } = facts.workspaces[0] as (typeof facts.workspaces)[0];
  return (await send(ready.url, secret_keys.live, "POST /v1/keys", { project_id, tenant_id, env: "live" })).status;
}

const json = ({ stdout }: Ran): Record<string, unknown> => JSON.parse(stdout) as Record<string, unknown>;

describe("an upgrade on SQLite", () => {
  it("makes a backup that the older version names, restores and serves", async () => {
    await using data = await openRelease(VERSION, "sqlite");
    const args = argsOf(data);
    const next = (...words: string[]): Promise<Ran> => keyrackProcess([...words, ...args], { bin: newer.bin });
    const older = (...words: string[]): Promise<Ran> => keyrack([...words, ...args]);

    const check = await next("db", "check", "--json");
    expect(check.code).toBe(4);
    const between = loadMigrations("sqlite").filter((each) => each.version > data.schema);
    const pending = [...between.map(({ name }) => name), NEXT_MIGRATION];
    expect(json(check)).toMatchObject({ schema: { database: data.schema, binary: NEXT_SCHEMA }, pending });

    const migrated = json(await next("db", "migrate", "--json"));
    expect(migrated).toMatchObject({ applied: pending });
    const backup = String(migrated.backup);
    expect(backup).toMatch(new RegExp(`-pre-${NEXT_SCHEMA}$`));
    const served = await startServer(args, {}, newer.bin);
    expect(await mint(served, data)).toBe(201);
    expect(await served.end("SIGTERM")).toBe(0);

    const refused = await refusedServe(["--port", "0", ...args]);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`keyrack restore ${backup} --force`);
    expect(json(await older("db", "check", "--json"))).toMatchObject({
      ok: false,
      schema: { database: NEXT_SCHEMA, binary: schemaVersion() },
      pending: [],
    });

    expect(await older("restore", backup, "--force", "--quiet")).toMatchObject({ code: 0, stdout: `${backup}\n` });
    const back = await startServer(args);
    expect(await mint(back, data)).toBe(201);
    expect(await back.end("SIGTERM")).toBe(0);
    expect(json(await older("db", "check", "--json"))).toMatchObject({ ok: true, pending: [] });
  });
});

describe.skipIf(!backends.includes("postgres"))("an upgrade on PostgreSQL", () => {
  it("runs both versions side by side, names them, and leads back by the operator's backup", async () => {
    await using data = await openRelease(VERSION, "postgres");
    const args = argsOf(data);
    const other = join(data.dir, "other");
    const env = { KEYRACK_MASTER_KEY_FILE: join(data.dir, "master.key") };
    const beside = ["--data-dir", other, ...args.slice(2)];
    const first = await startServer(args);
    const created = json(await keyrack(["backup", "create", "--json", ...args]));
    const second = await startServer(beside, env, newer.bin);
    try {
      expect(second.stderr()).toContain("your own backup");
      expect([await mint(first, data), await mint(second, data)]).toEqual([201, 201]);
      const doctor = await keyrackProcess(["doctor", ...args], { bin: newer.bin });
      expect(doctor.stdout).toContain(`Processes of versions ${VERSION}, ${NEXT_VERSION} are connected.`);
      const status = json(await keyrack(["status", "--json", "--url", second.ready.url]));
      expect(status).toMatchObject({ versions: [VERSION, NEXT_VERSION] });
    } finally {
      expect(await first.end("SIGTERM")).toBe(0);
      expect(await second.end("SIGTERM")).toBe(0);
    }
    const refused = await refusedServe(["--port", "0", ...args]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(`keyrack restore ${String(created.id)} --force`);
    expect((await keyrack(["restore", String(created.id), "--force", ...args])).code).toBe(0);
    const back = await startServer(args);
    expect(await mint(back, data)).toBe(201);
    expect(await back.end("SIGTERM")).toBe(0);
  });
});
