// Grants of quotas that a restore loses or revives. Their balances have changed, even if no unit was spent.
import { expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { deployment, setUpWorkspace } from "../../harness/instances/deployment.ts";
import { keyrack } from "../../harness/processes/cli.ts";

it.each(runBackends)("reports grants that a restore loses, and voided ones that it revives, on %s", async (backend) => {
  await using d = await deployment(backend);
  const app = await d.start();
  const { client, tenant_id } = await setUpWorkspace(app, "grants");
  const quotas = ["both", "granted", "voided", "kept"].map((id) => ({ id, amount: 10, refill: "none" as const }));
  await client.call("PATCH /v1/tenants/{id}", { params: { id: tenant_id }, body: { quotas } });
  const grant = (quota_id: string, reference: string) =>
    client.call("POST /v1/tenants/{id}/quotas/{quota_id}/grants", {
      params: { id: tenant_id, quota_id },
      body: { units: 5, reference },
    });
  const revoke = (id: string) => client.call("POST /v1/quota_grants/{id}/void", { params: { id }, body: {} });
  const [both, voided, before] = [await grant("both", "a"), await grant("voided", "b"), await grant("kept", "c")];
  await revoke(before.id);
  await createBackup(app.services);
  const last = await grant("granted", "f");
  const lost = [await grant("both", "d"), await grant("granted", "e"), last];
  for (const { id } of [both, voided, last]) await revoke(id);
  await app.stop();
  const database = d.target.kind === "postgres" ? ["--database-url", d.target.url] : [];
  const restore = (...flags: string[]) => keyrack(["restore", "--force", "--data-dir", d.dir, ...database, ...flags]);
  const { stdout } = await restore("--json");
  const report = JSON.parse(stdout) as Record<string, { id: string; quota_id: string; reference: string }[]>;
  expect(report).toMatchObject({ balances_moved: 3, grants_lost: 3, grants_revived: 2 });
  const ids = (name: string) => report[name]?.map(({ id }) => id).toSorted();
  expect(ids("lost_grants")).toEqual(lost.map(({ id }) => id).toSorted());
  expect(ids("revived_grants")).toEqual([both.id, voided.id].toSorted());
  expect(report.lost_grants?.map(({ reference }) => reference).toSorted()).toEqual(["d", "e", "f"]);
  const balances = report.moved_balances?.toSorted((a, b) => (a.quota_id < b.quota_id ? -1 : 1));
  const unspent = { subject_id: tenant_id, env: "live", calendar: null, period_start: null, spent: null };
  expect(balances).toEqual(["both", "granted", "voided"].map((quota_id) => ({ ...unspent, quota_id })));
});

it("prints how many grants it loses, and how to void those that it revives", async () => {
  await using d = await deployment("sqlite");
  const app = await d.start();
  const { client, project_id, tenant_id } = await setUpWorkspace(app, "printed");
  const quotas = [{ id: "calls", amount: 10, refill: "none" as const }];
  await client.call("PATCH /v1/tenants/{id}", { params: { id: tenant_id }, body: { quotas } });
  const params = { id: tenant_id, quota_id: "calls" };
  const grant = () => client.call("POST /v1/tenants/{id}/quotas/{quota_id}/grants", { params, body: { units: 5 } });
  const voided = await grant();
  await createBackup(app.services);
  await grant();
  await client.call("POST /v1/quota_grants/{id}/void", { params: { id: voided.id }, body: {} });
  const charge = { project_id, key_id: null, tenant_id, limits: [], quotas: true, cost: 1 };
  await client.call("POST /v1/ratelimit/check", { body: { ...charge, env: "live" } });
  await app.stop();
  const { stdout } = await keyrack(["restore", "--force", "--data-dir", d.dir]);
  expect(stdout).toContain("Balances of quotas that are no longer as they were: 1.");
  expect(stdout).toContain("Grants created after the backup and lost: 1.");
  expect(stdout).toContain("Grants voided after the backup that can be spent again: 1.");
  expect(stdout).toContain(`keyrack quota void ${voided.id}\n`);
  const { stdout: again } = await keyrack(["restore", "--force", "--data-dir", d.dir]);
  expect(again).not.toContain("Grants");
});
