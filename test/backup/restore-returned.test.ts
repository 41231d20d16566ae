// What a restore brings back besides keys: members, projects and tenants. Rules about idle keys wait.
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { restoreOffline } from "../../src/server/offline.ts";
import { backends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";

const restore = (d: Deployment) =>
  restoreOffline({
    settings: d.settings(),
    log: d.log,
    backup: undefined,
    force: true,
    newMasterKey: false,
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

describe.each(backends)("restore on %s", (back) => {
  it("counts members, projects and tenants that are back, and delays rules about idle keys", async () => {
    await using d = await deployment(back);
    const app = await d.start();
    const { project_id, tenant_id } = await setUpWorkspace(app, "removed");
    await addMembers(d);
    await rawSql(d.target, "update projects set idle_changed_at = 1");
    await createBackup(app.services);
    await app.stop();
    await rawSql(d.target, "delete from memberships where role = 'member'");
    await rawSql(d.target, "update memberships set role = 'member' where role = 'admin'");
    for (const [table, id] of Object.entries({ projects: project_id, tenants: tenant_id }))
      await rawSql(d.target, `update ${table} set deleted_at = $1 where id = $2`, [Date.now(), id]);
    const started = Date.now();
    expect(await restore(d)).toMatchObject({ members_returned: 2, projects_returned: 1, tenants_returned: 1 });
    const [project] = await rawSql(d.target, "select idle_changed_at as at from projects where id = $1", [project_id]);
    expect(Number(project?.at)).toBeGreaterThanOrEqual(started);
    expect(await restore(d)).toMatchObject({ members_returned: 0, projects_returned: 0, tenants_returned: 0 });
  });
});
