// The bootstrap token of a first start, where several processes start at the same time.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { openBootstrap } from "../../src/server/bootstrap.ts";
import { sha256Hex } from "../../src/platform/crypto.ts";
import { openStore } from "../../src/store/database.ts";
import { backends, readyDatabase } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { tempDir } from "../../harness/processes/cli.ts";

for (const back of backends) {
  describe(`first starts on ${back}`, () => {
    it("that share a data dir use one token, the one in its file", async () => {
      using temp = tempDir();
      const { target, dispose } = await readyDatabase(back);
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
  });
}
