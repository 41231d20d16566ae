// The bootstrap token: one for all processes that start at the same time, and how it is replaced.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { silentLog } from "../../src/platform/log.ts";
import { openBootstrap } from "../../src/server/bootstrap.ts";
import { recordSettings } from "../../src/server/settings-changes.ts";
import { startInstance } from "../../src/server/start.ts";
import { sha256Hex } from "../../src/platform/crypto.ts";
import { openStore } from "../../src/store/database.ts";
import { dropFact } from "../../src/store/queries/deployment.ts";
import { readyDatabase, runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { tempDir } from "../../harness/processes/cli.ts";

for (const backend of runBackends) {
  describe(`starts on ${backend}`, () => {
    it("record changed settings by name, also secret ones, without values and where the process runs", async () => {
      using temp = tempDir();
      const { target, dispose } = await readyDatabase(backend);
      const database_url = target.kind === "sqlite" ? `sqlite:${target.file}` : target.url;
      const start = async (flags: Record<string, string>): Promise<void> => {
        const own = { data_dir: temp.dir, port: "0", backup_every: "off", restore_test_every: "off", database_url };
        const { settings } = loadSettings({ env: {}, flags: { ...own, ...flags } });
        await (await startInstance({ settings, log: silentLog })).stop();
      };
      const recorded = async () =>
        (await rawSql(target, "select actor_type, payload from audit_log where action = 'config.changed'")).map(
          ({ actor_type, payload }) => [actor_type, JSON.parse(String(payload))],
        );
      await start({});
      await start({ host: "127.0.0.2" });
      expect(await recorded()).toEqual([]);
      const changed = { sign_up: "closed", region: "eu-1", mail_url: "smtp://user:secret@127.0.0.1:1" };
      await start(changed);
      const first = ["system", { changed: ["region", "mail_url", "sign_up"] }];
      expect(await recorded()).toEqual([first]);
      await start(changed);
      expect(await recorded()).toEqual([first]);
      // Two processes on one PostgreSQL may take turns.
      await start({});
      expect(await recorded()).toEqual(backend === "sqlite" ? [first, first] : [first]);
      const [fact] = await rawSql(target, "select value from deployment where name = 'settings'");
      expect(String(fact?.value)).not.toMatch(/closed|eu-1|secret@/);
      expect(String(fact?.value)).not.toContain(sha256Hex('"eu-1"').slice(0, 16)); // a bare hash could be guessed
      await dispose();
    });

    it("at the same time keep the settings of each other", async () => {
      await using instance = await testInstance(backend, { leads: false });
      const { services } = instance.app;
      await services.store.write({
        chains: [],
        work: async (tx) => ({ value: await dropFact.run(tx, { name: "settings" }), entries: [] }),
      });
      const start = (region: string) => recordSettings({ ...services, settings: { ...services.settings, region } });
      const recorded = () =>
        rawSql(services.store.target, "select payload from audit_log where action = 'config.changed'");
      await Promise.all([start("eu-1"), start("eu-2")]);
      const rows = [{ payload: '{"changed":["region"]}' }]; // the second start is a change of the first
      expect(await recorded()).toEqual(rows);
      if (backend === "sqlite") return;
      await Promise.all([start("eu-1"), start("eu-2")]);
      expect(await recorded()).toEqual(rows);
    });

    it("that share a new data dir use one token, the one in its file", async () => {
      using temp = tempDir();
      const { target, dispose } = await readyDatabase(backend);
      const { settings } = loadSettings({ env: {}, flags: { data_dir: temp.dir } });
      const store = await openStore(target, { now: Date.now, fatal: () => {} });
      const opened = await Promise.all([1, 2, 3].map(() => openBootstrap(store, settings, temp.dir)));
      await store.close();
      const file = join(temp.dir, "bootstrap.token");
      const token = readFileSync(file, "utf8").trim();
      const hash = sha256Hex(token);
      expect(opened).toEqual(opened.map(() => ({ hash, file, token })));
      const facts = await rawSql(target, "select value from deployment where name = 'bootstrap_token_hash'");
      expect(facts).toEqual([{ value: hash }]);
      await dispose();
    });

    it("keep the token when its file is deleted, and replace it by what is written there", async () => {
      using temp = tempDir();
      const { target, dispose } = await readyDatabase(backend);
      const { settings } = loadSettings({ env: {}, flags: { data_dir: temp.dir } });
      const store = await openStore(target, { now: Date.now, fatal: () => {} });
      const file = join(temp.dir, "bootstrap.token");
      const first = await openBootstrap(store, settings, temp.dir);
      rmSync(file);
      expect(await openBootstrap(store, settings, temp.dir)).toEqual({ hash: first.hash, file: null, token: null });
      expect(existsSync(file)).toBe(false);
      const token = "w5sHc0sVqkM7mJmXo2m3bEoZ9cXl1x4b";
      writeFileSync(file, `${token}\n`, { mode: 0o600 });
      expect(await openBootstrap(store, settings, temp.dir)).toEqual({ hash: sha256Hex(token), file, token });
      rmSync(file); // a process without the file reads the new hash
      expect((await openBootstrap(store, settings, temp.dir)).hash).toBe(sha256Hex(token));
      await store.close();
      await dispose();
    });
  });
}

it("a start without the file of its token says that the token is active", async () => {
  using temp = tempDir();
  const { settings } = loadSettings({ env: {}, flags: { data_dir: temp.dir, port: "0", mail_url: "log:" } });
  const start = async (): Promise<string[]> => {
    const warnings: string[] = [];
    const app = await startInstance({ settings, log: { ...silentLog, warn: (event) => warnings.push(event) } });
    await app.stop();
    return warnings.filter((event) => event.includes("bootstrap token"));
  };
  expect(await start()).toEqual([]);
  expect(await start()).toEqual([]);
  rmSync(join(temp.dir, "bootstrap.token"));
  expect(await start()).toEqual([expect.stringContaining("is active, although its file was deleted")]);
});
