// Rotating the master key: secrets open with the new key and not with the old one, even after an interruption.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { send } from "../../harness/processes/send.ts";
import { startInstance, type RunningInstance } from "../../src/server/start.ts";
import { loadSettings } from "../../src/config/load.ts";
import type { Settings } from "../../src/config/settings.ts";
import { ExitError } from "../../src/kernel/exit-error.ts";
import { silentLog } from "../../src/platform/log.ts";
import { rotateMasterKey } from "../../src/server/offline.ts";
import { createVault } from "../../src/domain/vault/vault.ts";
import { readyDatabase, runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const CLAIM = { scope_hash: hash("scope"), fingerprint: hash("f"), env: "live" };

for (const backend of runBackends) {
  describe(`master-key rotate on ${backend}`, () => {
    let dir: string;
    let settings: Settings;
    let database: Awaited<ReturnType<typeof readyDatabase>>;
    let bearer: string;
    let kid: string;

    const call = (app: RunningInstance, route: string, body?: object) => send(app.url, bearer, route, body);
    const running = async (work: (app: RunningInstance) => Promise<void>): Promise<void> => {
      const app = await startInstance({ settings, log: silentLog });
      try {
        await work(app);
      } finally {
        await app.stop();
      }
    };
    const kidOf = async (app: RunningInstance) =>
      (await call(app, "GET /.well-known/jwks.json")).body.keys[0].kid as string;
    const key = (): string => readFileSync(join(dir, "master.key"), "utf8");

    /** The stored response and the signing keys are unchanged. */
    const expectReadable = async (app: RunningInstance): Promise<void> => {
      expect((await call(app, "POST /v1/idempotency/claim", CLAIM)).body).toMatchObject({
        state: "replay",
        response: { body: "aGVsbG8=" },
      });
      expect(await kidOf(app)).toBe(kid);
    };

    beforeEach(async () => {
      dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
      database = await readyDatabase(backend);
      const { target } = database;
      const database_url = target.kind === "sqlite" ? `sqlite:${target.file}` : target.url;
      settings = loadSettings({ env: {}, flags: { data_dir: dir, port: "0", database_url, throttle: "off" } }).settings;
      await running(async (app) => {
        bearer = app.bootstrap.token as string;
        bearer = (await call(app, "POST /v1/workspaces", { name: "W", slug: "www" })).body.secret_key.key;
        const { lock_token } = (await call(app, "POST /v1/idempotency/claim", CLAIM)).body;
        const { scope_hash, env } = CLAIM;
        const answer = { scope_hash, env, lock_token, status: 200, headers: {}, body: "aGVsbG8=" };
        await call(app, "POST /v1/idempotency/complete", answer);
        kid = await kidOf(app);
      });
    });
    afterEach(async () => {
      rmSync(dir, { recursive: true, force: true });
      await database.dispose();
    });

    it("re-encrypts everything, keeps the old key in a file, and the next start reads everything", async () => {
      const before = key();
      const { old_key_file, resealed } = await rotateMasterKey(settings, silentLog);
      expect(resealed.idempotency_records).toBe(1);
      expect(resealed.signing_keys).toBeGreaterThan(1);
      expect(key()).not.toBe(before);
      expect(readFileSync(old_key_file, "utf8")).toBe(before);
      for (const name of readdirSync(dir).filter((name) => name.startsWith("master.key")))
        expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
      expect(existsSync(join(dir, "master.key.new"))).toBe(false);
      await running(expectReadable);
      const changed = "select payload from audit_log where action = 'config.changed'";
      expect(await rawSql(database.target, changed)).toEqual([]); // settings are hashed with the key
    });

    it("leaves a key whose file is named where the database of before comes back", async () => {
      const { old_key_file } = await rotateMasterKey(settings, silentLog);
      const fingerprint = createVault(Buffer.from(readFileSync(old_key_file, "utf8").trim(), "hex")).fingerprint;
      const sql = `update deployment set value = '${fingerprint}' where name = 'master_key_fingerprint'`;
      await rawSql(database.target, sql);
      const message = `Set KEYRACK_MASTER_KEY_FILE to ${old_key_file}.`;
      await expect(startInstance({ settings, log: silentLog })).rejects.toThrow(message);
    });

    it("leaves nothing that the old key can open", async () => {
      const before = key();
      await rotateMasterKey(settings, silentLog);
      writeFileSync(join(dir, "master.key"), before);
      await expect(startInstance({ settings, log: silentLog })).rejects.toThrow(ExitError);
    });

    it("is completed by the next start if it was interrupted after the commit", async () => {
      const before = key();
      const { old_key_file } = await rotateMasterKey(settings, silentLog);
      const after = key();
      // As after a power cut before the last rename, on a file system that kept a part of the copy.
      writeFileSync(old_key_file, before.slice(0, 20), { mode: 0o600 });
      writeFileSync(join(dir, "master.key.new"), after, { mode: 0o600 });
      writeFileSync(join(dir, "master.key"), before);
      await running(expectReadable);
      expect(key()).toBe(after);
      expect(readFileSync(old_key_file, "utf8")).toBe(before);
    });

    it("has no effect if it was interrupted before the commit", async () => {
      const before = key();
      writeFileSync(join(dir, "master.key.new"), `${"ab".repeat(32)}\n`, { mode: 0o600 });
      await running(expectReadable);
      expect(key()).toBe(before);
      await rotateMasterKey(settings, silentLog);
      await running(expectReadable);
    });

    it("has no effect if it was interrupted before the new key was on disk", async () => {
      const before = key();
      writeFileSync(join(dir, "master.key.new"), "", { mode: 0o600 });
      await running(expectReadable);
      expect(key()).toBe(before);
      await rotateMasterKey(settings, silentLog);
      expect(key()).not.toBe(before);
      await running(expectReadable);
    });

    it("is rejected while a server is running", async () => {
      await running(async (app) => {
        const before = key();
        await expect(rotateMasterKey(settings, silentLog)).rejects.toThrow(/Stop it first|already|uses|using/i);
        expect(key()).toBe(before);
        await expectReadable(app);
      });
    });
  });
}
