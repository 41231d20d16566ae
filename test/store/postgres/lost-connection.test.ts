// Connections lost before, during and after a commit: no mutation is lost, duplicated or half written.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { throughProxy, type Cut } from "../../../harness/databases/commit-proxy.ts";
import { backendPid, insertOneTenant, tenantIds, terminateBackend } from "../../../harness/databases/jobs.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { mutate, unchanged } from "../../../src/domain/core/mutate.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";

describe.runIf(backends.includes("postgres"))("a lost connection to PostgreSQL", () => {
  it("during a job rejects the group, leaves none of its rows and reconnects", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const doomed = mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async (tx) => {
      await insertOneTenant(ctx, tx, "doomed");
      await terminateBackend(fixture, await backendPid(tx));
      await insertOneTenant(ctx, tx, "doomed too");
      return { value: 0, events: [{ action: "tenant.created", target_id: null, payload: {} }] };
    });
    await expect(doomed).rejects.toMatchObject({ failure: "unavailable", status: 503 });
    await createTenant(ctx, { external_id: "after" });
    expect(await tenantIds(fixture)).toEqual(["after"]);
    expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 3,
    });
  });

  it("while idle fails no request", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const pid = await record(fixture.services, backendPid);
    await terminateBackend(fixture, pid);
    await createTenant(ctx, { external_id: "after" });
    expect(await tenantIds(fixture)).toEqual(["after"]);
  });

  it("of a reader is replaced at its next use", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const query = { sql: "select pg_backend_pid() as pid", values: [] };
    const [before] = await fixture.services.store.read.all<{ pid: number }>(query);
    await terminateBackend(fixture, before?.pid ?? 0);
    const pids = async (): Promise<unknown> => fixture.services.store.read.all(query).catch((error: unknown) => error);
    await expect.poll(pids).toMatchObject([{ pid: expect.any(Number) as number }]);
    await createTenant(ctx, { external_id: "after" });
  });

  for (const [when, committed] of [
    ["before commit", false],
    ["during commit", true],
    ["after commit", true],
  ] as const satisfies [Cut, boolean][]) {
    it(`${when} is looked up: ${committed ? "it took effect, and all jobs resolve" : "it did not, and all jobs are rejected"}`, async () => {
      await using fixture = await testServices("postgres");
      if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
      const { pathname } = new URL(fixture.target.url);
      const slowly = ["commit_delay = 100000", "commit_siblings = 0"]; // the server is still committing when it is asked
      for (const setting of slowly) await fixture.sql(`alter database ${pathname.slice(1)} set ${setting}`);
      await using far = await throughProxy(fixture);
      const ctx = await vendorOf(far.other.services);
      await createTenant(ctx, { external_id: "a" });
      const cut = far.proxy.cutNext(when);
      const results = await Promise.allSettled([
        createTenant(ctx, { external_id: "b" }),
        mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async () => unchanged("nothing")),
      ]);
      await cut;
      expect(results[0]).toMatchObject(committed ? { status: "fulfilled" } : { reason: { failure: "unavailable" } });
      expect(await tenantIds(fixture)).toEqual(committed ? ["a", "b"] : ["a"]);
      await createTenant(ctx, { external_id: "c" });
      const checked = committed ? 5 : 4;
      expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({ verified: true, checked });
    });
  }
});
