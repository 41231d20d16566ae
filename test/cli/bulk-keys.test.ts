// `keyrack key bulk` as a process: what it shows and asks, and that a killed run continues without losing or repeating
// a key.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSeededServer, UNREACHABLE, type SeededServer } from "../../harness/processes/seeded-server.ts";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";
import { until } from "../../harness/waiting.ts";
import { parseCsv } from "../../src/cli/commands/csv-import/csv.ts";

const KEYS = 100;
let cli: SeededServer;
type Key = { id: string; rotated_from: string | null; display_prefix: string };

beforeAll(async () => {
  cli = await startSeededServer();
});
afterAll(() => cli?.[Symbol.asyncDispose]());

async function tenantWithKeys(name: string, count: number): Promise<{ tenant_id: string; ids: string[] }> {
  const { id: tenant_id } = await cli.api("POST", "/v1/tenants", { external_id: name });
  const ids: string[] = [];
  const mint = async (): Promise<void> => {
    const { id } = await cli.api("POST", "/v1/keys", {
      project_id: cli.seed.project_id,
      tenant_id,
      env: "live",
      name: "=1+1",
    });
    ids.push(id);
  };
  for (let made = 0; made < count; made += 10)
    await Promise.all(Array.from({ length: Math.min(10, count - made) }, mint));
  return { tenant_id, ids };
}

async function keysOf(tenant_id: string): Promise<Key[]> {
  const keys: Key[] = [];
  for (let after = ""; ; ) {
    const page = (await cli.api("GET", `/v1/keys?tenant_id=${tenant_id}&limit=200${after}`)) as unknown as {
      data: Key[];
      has_more?: true;
    };
    keys.push(...page.data);
    if (!page.has_more) return keys;
    after = `&after=${page.data.at(-1)?.id}`;
  }
}

const progressFiles = (): string[] => readdirSync(cli.dir).filter((file) => /^keyrack-bulk-.*\.json$/.test(file));

describe("keyrack key bulk", () => {
  it("rotates every key once although it is killed in the middle, and has each new key in the file once", async () => {
    const { tenant_id, ids } = await tenantWithKeys("rotated", KEYS);
    const args = ["key", "bulk", "rotate", "--tenant-id", tenant_id, "--out", "keys.csv", "--limit", "5"];
    const env = { KEYRACK_URL: cli.seed.url, KEYRACK_SECRET_KEY: cli.seed.secret_key, HOME: cli.dir };
    const child = spawn(BIN, [...args, "--yes"], { env: cleanEnv(env), cwd: cli.dir, stdio: "ignore" });
    const out = join(cli.dir, "keys.csv");
    await until(() => existsSync(out) && readFileSync(out, "utf8").split("\n").length > KEYS / 4);
    child.kill("SIGKILL");
    await once(child, "close");
    const [file = ""] = progressFiles();
    expect([file === "", statSync(join(cli.dir, file)).mode & 0o777, statSync(out).mode & 0o777]).toEqual([
      false,
      0o600,
      0o600,
    ]);
    const resumed = await cli.run(["key", "bulk", "rotate", "--resume", file]);
    expect([resumed.code, resumed.stderr]).toEqual([0, ""]);
    expect(progressFiles()).toEqual([]);
    const [head, ...rows] = parseCsv(readFileSync(out, "utf8"));
    expect(head).toEqual(["id", "successor_id", "key", "project_id", "tenant_id", "env", "name"]);
    expect(rows.map(([id = ""]) => id).toSorted()).toEqual(ids.toSorted());
    const keys = await keysOf(tenant_id);
    expect(keys).toHaveLength(2 * KEYS);
    const successors = new Map(keys.filter((key) => key.rotated_from).map((key) => [key.rotated_from, key]));
    expect(successors.size).toBe(KEYS);
    for (const [id = "", successor_id, key = ""] of rows) {
      expect(successors.get(id)?.id).toBe(successor_id);
      expect(key.startsWith(successors.get(id)?.display_prefix ?? "-")).toBe(true);
    }
    expect(rows.every((row) => row.at(-1) === "'=1+1")).toBe(true);
  });

  it("shows what matches, and changes nothing without --yes or in a dry run", async () => {
    const { tenant_id, ids } = await tenantWithKeys("shown", 3);
    const match = ["--tenant-id", tenant_id];
    const dry = await cli.run(["key", "bulk", "revoke", ...match, "--dry-run"]);
    expect([dry.code, dry.stdout]).toEqual([
      0,
      expect.stringMatching(/PROJECT +ENV +KEYS\n\S+ +live +3\n3 keys would be changed\.\n/),
    ]);
    const unasked = await cli.run(["key", "bulk", "revoke", ...match]);
    expect([unasked.code, unasked.stderr]).toEqual([2, expect.stringContaining("--yes")]);
    expect((await cli.run(["key", "bulk", "rotate", ...match, "--yes"])).code).toBe(2);
    expect((await cli.run(["key", "bulk", "revoke", "--yes"])).stderr).toContain("filter");
    expect(await keysOf(tenant_id)).toHaveLength(3);
    const done = await cli.run(["key", "bulk", "revoke", ...match, "--yes", "--wait", "--json"]);
    expect(JSON.parse(done.stdout)).toMatchObject({
      object: "bulk",
      action: "revoke",
      matched: 3,
      changed: 3,
      out: null,
    });
    expect((await keysOf(tenant_id)).filter(({ id }) => ids.includes(id))).toEqual([]);
    expect(progressFiles()).toEqual([]);
  });

  it("keeps the progress file of a run that is refused when it continues", async () => {
    const { tenant_id } = await tenantWithKeys("refused", 1);
    const filter = { tenant_id };
    const run = { url: cli.seed.url, action: "revoke", body: { filter }, bulk_id: "0199", expect: 1, cursor: null };
    const file = join(cli.dir, "keyrack-bulk-0199.json");
    writeFileSync(file, JSON.stringify({ ...run, calls: 0, changed: 0, out: null, versions: {} }));
    const env = { KEYRACK_SECRET_KEY: `krsk_live_${"A".repeat(32)}00000000` };
    const refused = await cli.run(["key", "bulk", "revoke", "--resume", file], env);
    expect([refused.code, existsSync(file)]).toEqual([1, true]);
    rmSync(file);
  });

  it("says how to continue when the server is gone", async () => {
    const gone = await cli.run(["key", "bulk", "revoke", "--all", "--yes"], { KEYRACK_URL: UNREACHABLE });
    expect([gone.code, gone.stdout, progressFiles()]).toEqual([3, "", []]);
    const wrong = await cli.run(["key", "bulk", "revoke", "--all", "--resume", "nothing.json"]);
    expect(wrong.code).toBe(2);
  });
});
