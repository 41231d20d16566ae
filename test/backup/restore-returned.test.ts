// What a restore brings back besides keys: members, projects and tenants. Rules about idle keys wait, and copies of
// later checkpoints are set aside.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir } from "../../src/backup/files.ts";
import { restoreBackup } from "../../src/backup/restore.ts";
import { restoreOffline } from "../../src/server/offline.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";

const TENANTS = 1_100;

const restore = (d: Deployment, newMasterKey = false) =>
  restoreOffline({
    settings: d.settings(),
    log: d.log,
    backup: undefined,
    force: true,
    newMasterKey,
    onProgress: () => {},
  });

/** Adds a person of each role to the only workspace. */
async function addMembers({ target }: Deployment): Promise<void> {
  const [workspace] = await rawSql(target, "select id from workspaces");
  const user =
    "insert into users (id, email, email_key, password_phc, created_at, updated_at) values ($1, $2, $3, 'x', 1, 1)";
  for (const [n, role] of ["member", "admin", "owner"].entries()) {
    const id = `00000000-0000-7000-8000-00000000000${n}`;
    await rawSql(target, user, [id, `${role}@example.com`, `${role}@example.com`]);
    await rawSql(target, "insert into memberships values ($1, $2, $3, 1, 1)", [String(workspace?.id), id, role]);
  }
}

/** Adds as many tenants as two queries count. */
async function addTenants({ target }: Deployment): Promise<void> {
  const id = (i: number): string => `00000000-0000-7000-8000-${String(i).padStart(12, "0")}`;
  const rows = Array.from({ length: TENANTS }, (_, i) => `select '${id(i)}' as id, 'tenant-${i}' as external_id`);
  for (let at = 0; at < TENANTS; at += 100)
    await rawSql(
      target,
      `insert into tenants (id, workspace_id, external_id, created_at, updated_at)
       select added.id, workspaces.id, added.external_id, 1, 1 from workspaces
       cross join (${rows.slice(at, at + 100).join(" union all ")}) as added`,
    );
}

describe.each(runBackends)("restore on %s", (backend) => {
  it("sets the files with checkpoints aside before notes of the restored log are signed", async () => {
    await using d = await deployment(backend);
    const app = await d.start();
    await createBackup(app.services);
    await app.stop();
    rmSync(join(d.dir, "checkpoints"), { recursive: true, force: true });
    await restore(d); // there is nothing to set aside
    const folders = () => readdirSync(d.dir).filter((name) => name.startsWith("checkpoints"));
    expect(folders()).toEqual([]);
    mkdirSync(join(d.dir, "checkpoints"));
    writeFileSync(join(d.dir, "checkpoints", "later.txt"), "a note signed after the backup\n");
    await restore(d, true);
    expect(folders()).toEqual(["checkpoints", expect.stringMatching(/^checkpoints\.replaced-\d{8}T\d{9}Z$/)]);
    const [signed, aside] = folders().map((name) => readdirSync(join(d.dir, name)));
    expect([signed, aside]).toEqual([[expect.stringMatching(/^0000.*\.txt$/)], ["later.txt"]]);
  });
});

describe.each(runBackends)("restore on %s", (backend) => {
  it("has set them aside when it is interrupted after the replacement, and the next start names the old database", async () => {
    await using d = await deployment(backend);
    const app = await d.start();
    await createBackup(app.services);
    await app.stop();
    const checkpoints = join(d.dir, "checkpoints");
    mkdirSync(checkpoints, { recursive: true });
    const settings = d.settings();
    const killed = restoreBackup({
      dataDir: d.dir,
      backupDir: backupDir(settings),
      backup: undefined,
      target: d.target,
      force: true,
      newMasterKey: true,
      onProgress: () => {},
      log: d.log,
      masterKeyFingerprint: () => null,
      assertAlone: async () => {},
      open: async () => Promise.reject(new Error("killed")),
    });
    await expect(killed).rejects.toThrow("killed");
    expect(existsSync(checkpoints)).toBe(backend === "sqlite"); // where nothing was replaced
    if (backend === "sqlite") return;
    rmSync(join(d.dir, "master.key"));
    await d.start();
    const logged = d.logs.find((line) => line.includes("a backup was restored")) ?? "{}";
    expect(JSON.parse(logged)).toMatchObject({ replaced: expect.stringMatching(/^keyrack_replaced_\w+$/) as string });
  });

  it("counts members, projects and tenants that are back, and delays rules about idle keys", async () => {
    await using d = await deployment(backend);
    const app = await d.start();
    const { project_id } = await setUpWorkspace(app, "removed");
    await addMembers(d);
    await addTenants(d);
    await rawSql(d.target, "update projects set idle_changed_at = 1");
    await createBackup(app.services);
    await app.stop();
    await rawSql(d.target, "delete from memberships where role = 'member'");
    await rawSql(d.target, "update memberships set role = 'member' where role = 'admin'");
    for (const table of ["projects", "tenants"])
      await rawSql(d.target, `update ${table} set deleted_at = $1`, [Date.now()]);
    const started = Date.now();
    expect(await restore(d)).toMatchObject({
      members_returned: 2,
      projects_returned: 1,
      tenants_returned: TENANTS + 1,
    });
    const [project] = await rawSql(d.target, "select idle_changed_at as at from projects where id = $1", [project_id]);
    expect(Number(project?.at)).toBeGreaterThanOrEqual(started);
    expect(await restore(d)).toMatchObject({ members_returned: 0, projects_returned: 0, tenants_returned: 0 });
  });
});
