// Leader election: of several processes on PostgreSQL one leads, and a dead leader is replaced. On SQLite the one
// process leads.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { send } from "../../harness/processes/send.ts";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { callInstance } from "../../src/server/operator-socket/client.ts";
import { backends, readyDatabase } from "../../harness/databases/backends.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { testServices, vendorOf } from "../../harness/instances/test-services.ts";

describe.runIf(backends.includes("postgres"))("leader election on PostgreSQL", () => {
  it("elects one store, and another when the leader's session ends", async () => {
    await using fixture = await testServices("postgres");
    await using second = await fixture.another();
    const [a, b] = [fixture.services.store, second.services.store];
    expect([
      await a.tryBecomeLeader(),
      await b.tryBecomeLeader(),
      await a.tryBecomeLeader(),
      await b.tryBecomeLeader(),
    ]).toEqual([true, false, true, false]);
    await fixture.sql(
      "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory' and objid = 1 and database = (select oid from pg_database where datname = current_database())",
    );
    expect(await b.tryBecomeLeader()).toBe(true);
    await expect.poll(() => a.tryBecomeLeader().catch(() => null)).toBe(false); // once it listens again
    expect(await b.tryBecomeLeader()).toBe(true);
  });

  it("lets two processes share a master key and a bootstrap token, and elects the other when the leader is killed", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const dirs = [tempDir(), tempDir()] as const;
    const leads = async (at: number): Promise<unknown> =>
      ((await callInstance(dirs[at]!.dir, "instance.show", {}))?.value as { leads: boolean } | undefined)?.leads;
    const running: Running[] = [];
    const start = async (at: number): Promise<Running> => {
      const args = ["--database-url", target.url, "--data-dir", dirs[at]!.dir];
      const one = await startServer(args, { KEYRACK_MASTER_KEY_FILE: join(dirs[0].dir, "master.key") });
      running.push(one);
      return one;
    };
    try {
      const first = await start(0);
      await expect.poll(() => leads(0)).toBe(true);
      const second = await start(1);
      // A failed query makes a leader pause for one tick.
      await expect.poll(async () => [await leads(0), await leads(1)]).toEqual([true, false]);
      const token = readFileSync(join(dirs[0].dir, "bootstrap.token"), "utf8").trim();
      const created = await send(second.ready.url, token, "POST /v1/workspaces", { name: "A", slug: "abc" });
      expect(created.status).toBe(201);
      expect(await first.end("SIGKILL")).toBe("SIGKILL");
      await expect.poll(() => leads(1)).toBe(true);
      expect(second.stderr()).toContain("this process is the leader");
      expect(await second.end("SIGTERM")).toBe(0);
    } finally {
      await Promise.all(running.map((one) => one.end("SIGTERM")));
      for (const dir of dirs) dir[Symbol.dispose]();
      await dispose();
    }
  });
});

describe("SQLite", () => {
  it("always leads, and checkpoints its -wal when idle", async () => {
    await using fixture = await testServices("sqlite");
    const { store } = fixture.services;
    expect(await store.tryBecomeLeader()).toBe(true);
    if (fixture.target.kind !== "sqlite") throw new Error("not SQLite");
    const { file } = fixture.target;
    const size = (): number => statSync(file).size;
    const before = size();
    await vendorOf(fixture.services);
    for (let i = 0; i < 20; i++) await vendorOf(fixture.services);
    expect(size()).toBe(before);
    const writing = vendorOf(fixture.services); // a concurrent write is neither lost nor blocked
    await Promise.all([store.checkpointIfIdle(), vendorOf(fixture.services)]);
    await writing;
    await store.checkpointIfIdle();
    expect(size()).toBeGreaterThan(before);
    await vendorOf(fixture.services);
    expect(await fixture.sql("select count(*) as n from workspaces")).toEqual([{ n: 24 }]);
  });
});
