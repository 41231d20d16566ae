// Tampering with the database: verification reports every changed, missing or moved audit row.
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { latestCheckpoint } from "../../../src/domain/audit/checkpoints.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { auditPreimage, type AuditRow } from "../../../src/kernel/audit/chain.ts";
import { formatTimestamp } from "../../../src/kernel/timestamps.ts";
import { auditedWorkspace } from "../../../harness/instances/audit-workspace.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";
import { sharedServices, testServices, type TestServices } from "../../../harness/instances/test-services.ts";

for (const backend of runBackends) {
  describe(`a chain that was tampered with on ${backend}`, () => {
    const shared = sharedServices(backend);
    beforeAll(() => dropAppendOnly(shared().target));

    const change = (column: string, value: string | number) => ({
      what: `the ${column} of a row changed to ${value}`,
      sql: [
        `update audit_log set ${column} = ${typeof value === "string" ? `'${value}'` : value} where workspace_id = '{ws}' and seq = 5`,
      ],
      found: { reason: "hash_mismatch", broken_seq: 5, checked: 4 },
    });
    for (const { what, sql, found } of [
      change("id", "00000000-0000-7000-8000-000000000001"),
      change("occurred_at", 1),
      change("occurred_at", -1),
      change("actor_type", "system"),
      change("actor_id", "somebody"),
      change("action", "api_key.revoked"),
      change("target_type", "tenant"),
      change("target_id", "something"),
      change("payload", '{"env":"test"}'),
      change("payload", "{ }"),
      change("hash", "0".repeat(64)),
      change("hash", "not hex"),
      {
        what: "the prev_hash of a row changed",
        sql: [`update audit_log set prev_hash = '${"1".repeat(64)}' where workspace_id = '{ws}' and seq = 5`],
        found: { reason: "prev_hash_mismatch", broken_seq: 5, checked: 4 },
      },
      {
        what: "a row in the middle deleted",
        sql: ["delete from audit_log where workspace_id = '{ws}' and seq = 5"],
        found: { reason: "seq_gap", broken_seq: 5, checked: 4 },
      },
      {
        what: "the first row deleted",
        sql: ["delete from audit_log where workspace_id = '{ws}' and seq = 1"],
        found: { reason: "seq_gap", broken_seq: 1, checked: 0 },
      },
      {
        what: "two rows swapped",
        sql: [
          "update audit_log set seq = 100 where workspace_id = '{ws}' and seq = 5",
          "update audit_log set seq = 5 where workspace_id = '{ws}' and seq = 6",
          "update audit_log set seq = 6 where workspace_id = '{ws}' and seq = 100",
        ],
        found: { reason: "prev_hash_mismatch", broken_seq: 5, checked: 4 },
      },
      {
        what: "the last row deleted",
        sql: ["delete from audit_log where workspace_id = '{ws}' and seq = 11"],
        found: { reason: "head_mismatch", broken_seq: 11, checked: 10 },
      },
      {
        what: "the head set back",
        sql: ["update audit_heads set seq = 10 where workspace_id = '{ws}'"],
        found: { reason: "head_mismatch", broken_seq: 11, checked: 11 },
      },
      {
        what: "the head deleted",
        sql: ["delete from audit_heads where workspace_id = '{ws}'"],
        found: { reason: "head_mismatch", broken_seq: 1, checked: 11 },
      },
    ]) {
      it(`is found broken: ${what}`, async () => {
        const fixture = shared();
        const { ctx } = await auditedWorkspace(fixture);
        for (const statement of sql) await fixture.sql(statement.replace("{ws}", ctx.actor.workspace_id));
        expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
          verified: false,
          ...found,
        });
      });
    }

    it("passes when truncated together with its head, unless a checkpoint covers the lost rows", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await auditedWorkspace(fixture);
      const { workspace_id } = ctx.actor;
      await dropAppendOnly(fixture.target);
      const truncate = async (seq: number): Promise<void> => {
        await fixture.sql("delete from audit_log where seq > $1", [seq]);
        const [last] = await fixture.sql("select hash from audit_log where seq = $1", [seq]);
        await fixture.sql("update audit_heads set seq = $1, hash = $2", [seq, String(last?.hash)]);
      };
      await truncate(10);
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject({ verified: true, checked: 10 });
      await latestCheckpoint(fixture.services, workspace_id);
      await truncate(9);
      const found = { verified: false, checked: 9, head_seq: 9, broken_seq: 10, reason: "checkpoint_mismatch" };
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject(found);
    });

    it("is found broken when rows before a checkpoint were rewritten and rehashed", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await auditedWorkspace(fixture);
      const { workspace_id } = ctx.actor;
      await latestCheckpoint(fixture.services, workspace_id);
      await createTenant(ctx, { external_id: "newer" });
      await dropAppendOnly(fixture.target);
      await rewriteFrom(fixture, workspace_id, 5);
      const found = { verified: false, broken_seq: 11, reason: "checkpoint_mismatch" };
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject(found);
    });

    it("is found broken when the stored checkpoint is not signed by our key", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await auditedWorkspace(fixture);
      const { workspace_id } = ctx.actor;
      const { note } = await latestCheckpoint(fixture.services, workspace_id);
      const forged = note.replace("\n11\n", "\n10\n");
      await fixture.sql("update audit_checkpoints set seq = 10, note = $1", [forged]);
      const found = { verified: false, broken_seq: 10, reason: "checkpoint_mismatch" };
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject(found);
    });
  });
}

/** An attacker with the database but without the signing key: changes a row and recomputes the hashes after it. */
async function rewriteFrom(fixture: TestServices, workspace_id: string, from: number): Promise<void> {
  const rows = await fixture.sql("select * from audit_log where workspace_id = $1 order by seq", [workspace_id]);
  let prev_hash = "";
  for (const row of rows) {
    if (Number(row.seq) >= from) {
      const payload = Number(row.seq) === from ? '{"env":"test"}' : String(row.payload);
      const hashed = {
        ...row,
        occurred_at: formatTimestamp(Number(row.occurred_at)),
        prev_hash,
      } as unknown as AuditRow;
      row.hash = createHash("sha256").update(auditPreimage(hashed, payload)).digest("hex");
      const values = [payload, prev_hash, row.hash, Number(row.seq)];
      await fixture.sql("update audit_log set payload = $1, prev_hash = $2, hash = $3 where seq = $4", values);
    }
    prev_hash = String(row.hash);
  }
  await fixture.sql("update audit_heads set hash = $1", [prev_hash]);
}
