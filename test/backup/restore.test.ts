// Restoring: the old database stays until the new one is checked; sessions and tokens of the backup are ended; and SDK
// nodes that are ahead of the backup return to the restored policy.
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { backupDir, findBackup, writeManifest } from "../../src/backup/files.ts";
import { createBackup } from "../../src/backup/create.ts";
import { createKeyrack } from "../../src/sdk/index.ts";
import { restoreOffline, type RestoreRequest } from "../../src/server/offline.ts";
import { inspect } from "../../src/store/offline/thread-tasks.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";

const quiet = (): void => {};

function restore(d: Deployment, more: Partial<RestoreRequest> = {}) {
  const base = {
    settings: d.settings(),
    log: d.log,
    backup: undefined,
    force: true,
    newMasterKey: false,
    onProgress: quiet,
  };
  return restoreOffline({ ...base, ...more });
}

const versionOf = async (d: Deployment, id: string): Promise<number> =>
  Number((await rawSql(d.target, "select policy_version as v from projects where id = $1", [id]))[0]?.v);

for (const backend of runBackends) {
  describe(`restore on ${backend}`, () => {
    it("returns SDK nodes that were ahead to the policy of the backup", async () => {
      await using d = await deployment(backend);
      let app = await d.start();
      const shop = await setUpWorkspace(app, "ahead");
      const [kept, revokedLater] = [await shop.mint(), await shop.mint()];
      const backup = await createBackup(app.services);
      const lost = await shop.mint();
      await shop.client.call("POST /v1/keys/{id}/revoke", { params: { id: revokedLater.id } });
      const node = createKeyrack({ url: app.url, secretKey: shop.secretKey, projectId: shop.project_id, pollMs: 50 });
      await node.ready();
      const before = await versionOf(d, shop.project_id);
      expect([kept, revokedLater, lost].map(({ key }) => node.verify(key).ok)).toEqual([true, false, true]);
      await app.stop();
      const restored = await restore(d);
      expect(restored).toMatchObject({
        backup_id: backup.id,
        revoked_after_backup: 1,
        revived: [{ id: revokedLater.id, kind: "api_keys" }],
      });
      const after = await versionOf(d, shop.project_id);
      expect([after > before, after % 1_000_000]).toEqual([true, before - 2]);
      expect(
        await rawSql(d.target, "select min_delta_version as v from projects where id = $1", [shop.project_id]),
      ).toEqual([{ v: after }]);
      app = await d.start();
      const states = () => [kept, revokedLater, lost].map(({ key }) => node.verify(key).ok);
      await expect.poll(states).toEqual([true, true, false]);
      // The feed continues with deltas.
      const next = await shop.mint();
      await expect.poll(() => node.verify(next.key).ok).toBe(true);
      await node.close();
      const chain = await shop.client.call("GET /v1/audit_logs/chain", {});
      expect(chain.verified).toBe(true);
    });

    it("lists what it undoes: keys quarantined, disabled or confined, tenants suspended, and balances spent", async () => {
      await using d = await deployment(backend);
      const app = await d.start();
      const shop = await setUpWorkspace(app, "undone");
      const { project_id, tenant_id } = shop;
      const [leaked, before, after] = [await shop.mint(), await shop.mint(), await shop.mint()];
      const disable = (id: string) => shop.client.call("POST /v1/keys/{id}/disable", { params: { id }, body: {} });
      const confine = (id: string, cidr: string) =>
        shop.client.call("PATCH /v1/keys/{id}", { params: { id }, body: { allowed_cidrs: [cidr] } });
      await disable(before.id);
      await confine(before.id, "10.0.0.0/8");
      const quotas = [{ id: "calls", amount: 10, refill: "none" as const }];
      await shop.client.call("PATCH /v1/tenants/{id}", { params: { id: tenant_id }, body: { quotas } });
      const charge = { project_id, key_id: null, tenant_id, limits: [], quotas: true };
      const spend = (cost: number, env: "live" | "test") =>
        shop.client.call("POST /v1/ratelimit/check", { body: { ...charge, env, cost } });
      for (const env of ["live", "test"] as const) expect((await spend(3, env)).allowed).toBe(true);
      await createBackup(app.services);
      const [lost, lostLeaked] = [await shop.mint(), await shop.mint()];
      for (const { id } of [after, lost]) await confine(id, "10.1.0.0/16");
      for (const { id } of [after, lost]) await disable(id);
      expect((await spend(5, "live")).allowed).toBe(true);
      await shop.client.call("POST /v1/tenants/{id}/suspend", { params: { id: tenant_id }, body: {} });
      await app.stop();
      const quarantine = "update api_keys set quarantined_at = $1, expires_at = $2 where id in ($3, $4)";
      await rawSql(d.target, quarantine, [Date.now(), Date.now() + 3_600_000, leaked.id, lostLeaked.id]);
      expect(await restore(d)).toMatchObject({
        revoked_after_backup: 0,
        revived: [],
        released: [{ id: leaked.id, kind: "api_keys" }],
        disabled_after_backup: 2,
        suspended_after_backup: 1,
        narrowed_after_backup: 2,
        widened: [{ id: after.id, kind: "api_keys", allowed_cidrs: '["10.1.0.0/16"]', ip_mode: "enforce" }],
        resumed: [
          { id: after.id, kind: "api_keys" },
          { id: tenant_id, kind: "tenants" },
        ],
        balances_moved: 1,
        moved_balances: [{ subject_id: tenant_id, env: "live", quota_id: "calls", spent: 8 }],
      });
    });

    it("refuses without --force, without the master key, and while a server runs, and changes nothing", async () => {
      await using d = await deployment(backend);
      const app = await d.start();
      const shop = await setUpWorkspace(app, "refused");
      await createBackup(app.services);
      await expect(restore(d)).rejects.toMatchObject({ exitCode: 1 });
      await app.stop();
      await expect(restore(d, { force: false })).rejects.toThrow("Add --force to replace it");
      renameSync(join(d.dir, "master.key"), join(d.dir, "away"));
      await expect(restore(d)).rejects.toThrow("--new-master-key");
      writeFileSync(join(d.dir, "master.key"), "ab".repeat(32), { mode: 0o600 });
      await expect(restore(d)).rejects.toThrow("KEYRACK_MASTER_KEY_FILE");
      expect(await versionOf(d, shop.project_id)).toBe(1);
      expect(await rawSql(d.target, "select id from audit_log where action = 'backup.restored'")).toEqual([]);
    });

    it("refuses a damaged backup and one of a newer schema, and keeps the replaced database", async () => {
      await using d = await deployment(backend);
      const app = await d.start();
      const shop = await setUpWorkspace(app, "kept");
      const { folder, id } = await createBackup(app.services);
      await app.stop();
      const file = join(folder, backend === "sqlite" ? "keyrack.db" : "keyrack.dump");
      const good = readFileSync(file);
      const bad = Buffer.from(good);
      bad[100] = (bad[100] ?? 0) ^ 1;
      writeFileSync(file, bad);
      await expect(restore(d)).rejects.toMatchObject({ exitCode: 4 });
      expect(await versionOf(d, shop.project_id)).toBe(1);
      writeFileSync(file, good);
      const newer = join(d.dir, "20300101T000000Z-abcdef");
      mkdirSync(newer);
      const { manifest } = findBackup(backupDir(d.settings()), id);
      await writeManifest(newer, { ...manifest, id: basename(newer), schema_version: 9_001 });
      await expect(restore(d, { backup: newer })).rejects.toMatchObject({ exitCode: 2 });
      const { replaced } = await restore(d, { backup: folder });
      const old =
        backend === "sqlite"
          ? rawSql({ kind: "sqlite", file: replaced ?? "" }, "select policy_version as v from projects")
          : rawSql(d.target, `select policy_version as v from ${replaced}.projects`);
      expect(await old).toEqual([{ v: 1 }]);
      await expect(restore(d, { backup: "20200101T000000Z-000000" })).rejects.toThrow("There is no backup");
      expect((await restore(d, { backup: id })).backup_id).toBe(id);
    });

    it("ends sessions, one-time tokens and open invitations, and records the restore in the audit log", async () => {
      await using d = await deployment(backend);
      const app = await d.start();
      const email = "ada@example.com";
      const post = (path: string, body: unknown) =>
        fetch(app.url + path, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        });
      await post("/v1/auth/users", { email, password: "a long enough pass phrase 17" });
      await post("/v1/auth/sessions", { email, password: "a long enough pass phrase 17" });
      const shop = await setUpWorkspace(app, "invites");
      const invite = (who: string) =>
        shop.client.call("POST /v1/invites", { body: { email: `${who}@example.com`, role: "owner" } });
      const revoke = ({ id }: { id: string }) =>
        shop.client.call("POST /v1/invites/{id}/revoke", { params: { id }, body: {} });
      const [open, revoked, revokedLater] = [await invite("open"), await invite("revoked"), await invite("later")];
      await revoke(revoked);
      await app.idle();
      const { id } = await createBackup(app.services);
      await revoke(revokedLater);
      await app.stop();
      const ended = { sessions_ended: 1, tokens_ended: 1, invites_ended: 2 };
      expect(await restore(d)).toMatchObject({ ...ended, new_master_key: false });
      const live = "select id from workspace_invites where revoked_at is null and id in ($1, $2, $3)";
      expect(await rawSql(d.target, live, [open.id, revoked.id, revokedLater.id])).toEqual([]);
      expect(await rawSql(d.target, "select count(*) as n from sessions where revoked_at is null")).toEqual([{ n: 0 }]);
      expect(await rawSql(d.target, "select count(*) as n from one_time_tokens where ended_at is null")).toEqual([
        { n: 0 },
      ]);
      const [row] = await rawSql(d.target, "select payload from audit_log where action = 'backup.restored'");
      expect(JSON.parse(String(row?.payload))).toMatchObject({ backup_id: id, ...ended });
      expect(await rawSql(d.target, "select name from deployment where name = 'restore_pending'")).toEqual([]);
    });
  });
}

for (const backend of runBackends) {
  describe(`restore on ${backend}`, () => {
    it("never uses a policy version twice, even when the same backup is restored again", async () => {
      await using d = await deployment(backend);
      const app = await d.start();
      const shop = await setUpWorkspace(app, "twice");
      await shop.mint();
      await app.services.writtenBytes.flush();
      await rawSql(d.target, "insert into mail_counts (id, kind, address_key, counted_at) values ('m', 'k', 'a', 1)");
      await createBackup(app.services);
      const written = "select count(*) as n from written_bytes";
      expect(await rawSql(d.target, written)).not.toEqual([{ n: 0 }]);
      await app.stop();
      await restore(d);
      expect(await rawSql(d.target, written)).toEqual([{ n: 0 }]); // a new day for everyone
      expect(await rawSql(d.target, "select id from mail_counts")).toEqual([]);
      const first = await versionOf(d, shop.project_id);
      await restore(d);
      expect(await versionOf(d, shop.project_id)).toBe(first + 1_000_000);
    });

    it("continues without the master key with --new-master-key: new keys, unsent mail dropped, chains verify", async () => {
      await using d = await deployment(backend, { mail_url: "smtp://127.0.0.1:1" });
      let app = await d.start();
      const shop = await setUpWorkspace(app, "newkey");
      await fetch(`${app.url}/v1/auth/users`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ email: "ada@example.com", password: "a long enough pass phrase 17" }),
      });
      await app.idle();
      const jwks = async () =>
        (await (await fetch(`${app.url}/.well-known/jwks.json`)).json()) as { keys: { kid: string }[] };
      const kids = (await jwks()).keys.map(({ kid }) => kid);
      await createBackup(app.services);
      await app.stop();
      rmSync(join(d.dir, "master.key"));
      expect(await restore(d, { newMasterKey: true })).toMatchObject({ new_master_key: true, mail_dropped: 1 });
      expect(existsSync(join(d.dir, "master.key"))).toBe(true);
      expect((await inspect(d.target)).findings).toEqual([]);
      app = await d.start();
      // The hashes of the settings are made with the master key: another key is no change of all settings.
      expect(await rawSql(d.target, "select 1 from audit_log where action = 'config.changed'")).toEqual([]);
      expect((await jwks()).keys.map(({ kid }) => kid).filter((kid) => kids.includes(kid))).toEqual([]);
      expect((await shop.client.call("GET /v1/audit_logs/chain", {})).verified).toBe(true);
      expect((await shop.mint()).id).toBeTruthy();
    });
  });
}

describe("restore on sqlite from copied files", () => {
  it("makes the database private and writable whatever the backup's mode, and replays no old -wal", async () => {
    await using d = await deployment("sqlite");
    const app = await d.start();
    const shop = await setUpWorkspace(app, "modes");
    const { folder } = await createBackup(app.services);
    const file = join(d.dir, "keyrack.db");
    await shop.mint();
    const log = readFileSync(`${file}-wal`);
    await app.stop();
    rmSync(file); // moved away by hand after a crash, without its -wal
    writeFileSync(`${file}-wal`, log);
    chmodSync(join(folder, "keyrack.db"), 0o444);
    expect(await restore(d, { force: false })).toMatchObject({ replaced: null });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await inspect(d.target)).findings).toEqual([]);
    expect(await rawSql(d.target, "select count(*) as n from api_keys")).toEqual([{ n: 0 }]);
  });
});

describe.runIf(runBackends.includes("postgres"))("restore on postgres of a dump that fails its check", () => {
  it("puts the old database back", async () => {
    await using d = await deployment("postgres");
    const app = await d.start();
    const shop = await setUpWorkspace(app, "unsound");
    await rawSql(d.target, "alter table audit_log disable trigger user");
    await rawSql(d.target, "update audit_log set action = 'tenant.updated' where seq = 2");
    await createBackup(app.services);
    const { id } = await shop.mint();
    await app.stop();
    await expect(restore(d)).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringContaining("does not restore to a sound database") as string,
    });
    expect(await rawSql(d.target, "select id from api_keys")).toEqual([{ id }]);
    expect(await rawSql(d.target, "select nspname from pg_namespace where nspname like 'keyrack%'")).toEqual([]);
    expect(await rawSql(d.target, "select name from deployment where name = 'restore_pending'")).toEqual([]);
  });
});

describe.runIf(runBackends.includes("postgres"))("restore on postgres under a server with another name", () => {
  it("detects the leader's lock and changes nothing", async () => {
    await using d = await deployment("postgres");
    if (d.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const url = new URL(d.target.url);
    url.searchParams.set("application_name", "billing");
    const app = await d.start({ database_url: url.href });
    const shop = await setUpWorkspace(app, "named");
    await createBackup(app.services);
    await expect.poll(() => app.services.worker.leads).toBe(true);
    await expect(restore(d)).rejects.toThrow("A Keyrack server is using this database");
    expect((await shop.mint()).id).toBeTruthy();
  });
});
