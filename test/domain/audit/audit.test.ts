// Lists of the audit log: order and paging, complete rows for live principals, and what test principals may see.
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ANONYMOUS } from "../../../src/domain/core/actor.ts";
import { listAudit, listDeploymentAudit } from "../../../src/domain/audit/audit.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import { auditPreimage, GENESIS_HASH } from "../../../src/kernel/audit/chain.ts";
import type { Query, Reader } from "../../../src/store/engine/tx.ts";
import { listAuditRows } from "../../../src/store/queries/audit.ts";
import { auditedWorkspace } from "../../../harness/instances/audit-workspace.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { asOwner, sharedServices, vendorOf } from "../../../harness/instances/test-services.ts";

for (const backend of backends) {
  describe(`the audit list on ${backend}`, () => {
    const shared = sharedServices(backend); // each test has a workspace, and so a chain, of its own

    it("is ascending, starts after after_seq, and reports whether there is more", async () => {
      const fixture = shared();
      const { ctx } = await auditedWorkspace(fixture);
      const seqs = async (query: { after_seq?: number; limit: number }) => {
        const list = (await listAudit(ctx, query)).parse();
        return [list.data.map(({ seq }) => seq), list.has_more ?? false];
      };
      expect(await seqs({ limit: 4 })).toEqual([[1, 2, 3, 4], true]);
      expect(await seqs({ after_seq: 4, limit: 4 })).toEqual([[5, 6, 7, 8], true]);
      expect(await seqs({ after_seq: 8, limit: 3 })).toEqual([[9, 10, 11], false]);
      expect(await seqs({ after_seq: 11, limit: 3 })).toEqual([[], false]);
    });

    it("contains every field that the hashes cover, for a live principal", async () => {
      const fixture = shared();
      const { ctx } = await auditedWorkspace(fixture);
      const { data } = (await listAudit(ctx, { limit: 200 })).parse();
      expect(data).toHaveLength(11);
      let prev_hash = GENESIS_HASH;
      for (const { object, actor, hash, ...row } of data) {
        expect([object, actor, row.prev_hash]).toEqual(["audit_log", null, prev_hash]);
        const preimage = auditPreimage({ ...row, workspace_id: ctx.actor.workspace_id });
        expect(hash).toBe(createHash("sha256").update(preimage).digest("hex"));
        prev_hash = hash;
      }
      expect(data[8]?.payload).toEqual({ role: "owner", email: "ada@example.com" });
    });

    it("names the person who acted, to the workspace and to the operator", async () => {
      const fixture = shared();
      const { services } = fixture;
      const { ctx } = await auditedWorkspace(fixture);
      const person = { email: "ann@example.com", password: "a long enough password", name: "Ann" };
      const from = { network: "10.0.0.0/24", request_id: "r" };
      await signUp({ services, actor: ANONYMOUS, from }, person);
      const id = String((await fixture.sql("select id from users"))[0]?.id);
      const { workspace_id } = ctx.actor;
      const ann = { services, actor: { kind: "session", id: "s", user_id: id, workspace_id, role: "owner" } } as const;
      await createTenant(ann, { external_id: "hers" });
      const shown = { id, email: "ann@example.com", email_verified: false, name: "Ann" };
      const { data } = (await listAudit(ctx, { after_seq: 10, limit: 10 })).parse();
      expect(data.map(({ actor_type, actor }) => [actor_type, actor])).toEqual([
        ["secret_key", null],
        ["user", shown],
      ]);
      await fixture.sql("update users set email_verified_at = 1");
      expect((await listAudit(ctx, { after_seq: 11, limit: 1 })).parse().data[0]?.actor).toEqual({
        ...shown,
        email_verified: true,
      });
      const whole = await listDeploymentAudit(services, { limit: 10 });
      expect(whole.data.map(({ seq, action, actor }) => [seq, action, actor?.email])).toEqual([
        [1, "user.created", "ann@example.com"],
      ]);
      expect((await listDeploymentAudit(services, { after_seq: 1, limit: 10 })).data).toEqual([]);
    });

    it("shows a test principal no live key, no unresolvable key, no person and no private payload", async () => {
      const fixture = shared();
      const { test } = await auditedWorkspace(fixture);
      const { data } = (await listAudit(test, { limit: 200 })).parse();
      expect(data.map(({ seq }) => seq)).toEqual([1, 3, 4, 6, 7, 9, 11]);
      expect(data.some((row) => "actor" in row)).toBe(false);
      const member = data.find(({ seq }) => seq === 9);
      expect(member).toMatchObject({ target_type: "workspace_member", payload: {} });
      expect(data.find(({ seq }) => seq === 4)?.payload).toEqual({ external_id: "t", name: null });
      expect(JSON.stringify(data)).not.toContain("ada@example.com");
    });

    it("filters for a test principal before it applies the limit", async () => {
      const fixture = shared();
      const { test } = await auditedWorkspace(fixture);
      const page = async (after_seq: number) => {
        const list = (await listAudit(test, { after_seq, limit: 2 })).parse();
        return [list.data.map(({ seq }) => seq), list.has_more ?? false];
      };
      expect(await page(0)).toEqual([[1, 3], true]);
      expect(await page(3)).toEqual([[4, 6], true]);
      expect(await page(6)).toEqual([[7, 9], true]);
      expect(await page(9)).toEqual([[11], false]);
    });

    it("reads only rows that a test principal may see, however many are hidden between them", async () => {
      const fixture = shared();
      const { test } = await auditedWorkspace(fixture);
      const { workspace_id } = test.actor;
      const columns = (action: string, target_type: string): string =>
        `'${workspace_id}', i, '${workspace_id}' || i, 1, 'secret_key', null, '${action}', '${target_type}', 't' || i,
          '{"env":"live"}', 'p' || i, 'h' || i`;
      for (const [from, to, hidden] of [
        [100, 10_000, columns("api_key.created", "api_key")],
        [10_001, 20_000, columns("quota_grant.created", "quota_grant")],
      ])
        await fixture.sql(`insert into audit_log with recursive n(i) as
          (select ${from} union all select i + 1 from n where i < ${to}) select ${hidden} from n`);
      await fixture.sql("analyze audit_log");
      let asked: Query | undefined;
      const reader = { dialect: backend, all: async (query: Query) => ((asked = query), []) } as unknown as Reader;
      await listAuditRows(reader, { workspace_id, walk: { by: "visible" }, after_seq: 11 }, 50);
      const explain = backend === "sqlite" ? "explain query plan" : "explain analyze";
      const plan = await fixture.sql(`${explain} ${asked?.sql.replaceAll("?", () => "$1")}`, [
        ...((asked?.values ?? []) as (string | number)[]),
      ]);
      expect(JSON.stringify(plan)).toContain("audit_log_visible");
      expect(JSON.stringify(plan)).not.toContain("Rows Removed"); // the index holds no other rows
      expect((await listAudit(test, { after_seq: 11, limit: 50 })).parse().data).toEqual([]);
    });

    it("shows a workspace only its own rows", async () => {
      const fixture = shared();
      await auditedWorkspace(fixture);
      const other = await vendorOf(fixture.services);
      expect((await listAudit(other, { limit: 200 })).parse().data.map(({ action }) => action)).toEqual([
        "workspace.created",
        "secret_key.created",
      ]);
      expect((await listAudit(asOwner(other), { limit: 200 })).parse().data).toHaveLength(2);
    });
  });
}
