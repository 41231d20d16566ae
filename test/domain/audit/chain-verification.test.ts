// Verification of audit chains: intact ones pass, also while they are being written.
import { describe, expect, it } from "vitest";
import { listAudit } from "../../../src/domain/audit/audit.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { latestCheckpoint } from "../../../src/domain/audit/checkpoints.ts";
import type { Event } from "../../../src/domain/core/events.ts";
import { mutate } from "../../../src/domain/core/mutate.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { GENESIS_HASH, NIL_WORKSPACE } from "../../../src/kernel/audit/chain.ts";
import { auditedWorkspace } from "../../../harness/instances/audit-workspace.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";
import { sharedServices, testServices, vendorOf } from "../../../harness/instances/test-services.ts";

for (const backend of runBackends) {
  describe(`chain verification on ${backend}`, () => {
    const shared = sharedServices(backend); // each test has a workspace, and so a chain, of its own

    it("passes for an intact chain and for an empty one", async () => {
      const fixture = shared();
      const { ctx } = await auditedWorkspace(fixture);
      const { data } = (await listAudit(ctx, { after_seq: 10, limit: 1 })).parse();
      expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toEqual({
        object: "audit_chain",
        verified: true,
        checked: 11,
        head_seq: 11,
        head_hash: data[0]?.hash,
        broken_seq: null,
        reason: null,
      });
      const empty = {
        verified: true,
        checked: 0,
        head_seq: 0,
        head_hash: GENESIS_HASH,
        broken_seq: null,
        reason: null,
      };
      expect(await verifyChain(fixture.services, NIL_WORKSPACE)).toEqual({ object: "audit_chain", ...empty });
    });

    it("shares one run among concurrent requests for the same chain", async () => {
      const fixture = shared();
      const { ctx } = await auditedWorkspace(fixture);
      const { store } = fixture.services;
      const first = store.verify(ctx.actor.workspace_id, []);
      expect(store.verify(ctx.actor.workspace_id, [])).toBe(first);
      expect(store.verify(NIL_WORKSPACE, [])).not.toBe(first);
      await first;
      const many = await Promise.all([1, 2, 3, 4, 5].map(() => verifyChain(fixture.services, NIL_WORKSPACE)));
      expect(many.every(({ verified }) => verified)).toBe(true);
    });

    it("passes at any moment while the chain is being written", async () => {
      const fixture = shared();
      const ctx = await vendorOf(fixture.services);
      const writing = Promise.all(Array.from({ length: 300 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      const verdicts = [];
      for (let i = 0; i < 4; i++) {
        verdicts.push(await verifyChain(fixture.services, ctx.actor.workspace_id));
        await latestCheckpoint(fixture.services, ctx.actor.workspace_id);
      }
      await writing;
      verdicts.push(await verifyChain(fixture.services, ctx.actor.workspace_id));
      expect(verdicts.map(({ reason }) => reason)).toEqual([null, null, null, null, null]);
      expect(verdicts.at(-1)?.checked).toBe(302);
    });

    it("reads a chain of several pages to its end", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const events = Array.from(
        { length: 500 },
        () => ({ action: "tenant.updated", target_id: null, payload: {} }) as const,
      );
      for (let i = 0; i < 5; i++) {
        await mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async () => ({
          value: 0,
          events: events as unknown as [Event],
        }));
      }
      expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
        verified: true,
        checked: 2502,
      });
      await dropAppendOnly(fixture.target);
      await fixture.sql("update audit_log set target_id = 'x' where seq = 2400");
      const broken = { verified: false, checked: 2399, broken_seq: 2400, reason: "hash_mismatch" };
      expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject(broken);
    });

    it("is rejected when the store closes before it has finished", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const waiting = Promise.allSettled([
        fixture.services.store.verify(ctx.actor.workspace_id, []),
        fixture.services.store.verify(NIL_WORKSPACE, []),
        fixture.services.store.verify(fixture.services.newId(), []),
      ]);
      await fixture.services.store.close();
      for (const result of await waiting) expect(result).toMatchObject({ reason: { failure: "stopping" } });
    });
  });
}
