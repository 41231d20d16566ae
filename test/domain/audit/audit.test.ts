// The audit log as it is read, and the verdict on a chain that somebody has tampered with.
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { ANONYMOUS, type SecretKeyActor } from "../../../src/domain/core/actor.ts";
import { listAudit, listDeploymentAudit, verifyChain } from "../../../src/domain/audit/audit.ts";
import { latestCheckpoint } from "../../../src/domain/audit/checkpoints.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import type { Event } from "../../../src/domain/core/events.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { mutate } from "../../../src/domain/core/mutate.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createSecretKey } from "../../../src/domain/keys/secret-keys.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import { auditPreimage, GENESIS_HASH, NIL_WORKSPACE, type AuditRow } from "../../../src/kernel/audit/chain.ts";
import { formatTimestamp } from "../../../src/kernel/timestamps.ts";
import { backends } from "../../../harness/databases/backends.ts";
import {
  asOwner,
  keyActor,
  testServices,
  sharedServices,
  vendorOf,
  type TestServices,
} from "../../../harness/instances/test-services.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";

function happen(ctx: Ctx<SecretKeyActor>, event: Event): Promise<number> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async () => ({ value: 0, events: [event] }));
}

/** A workspace with keys in both environments: its vendor, and what a test key of it sees. */
async function busyWorkspace(lite: TestServices) {
  const ctx = await vendorOf(lite.services); // seq 1 and 2: workspace.created, a live secret_key.created
  const project = await createProject(ctx, { name: "p", slug: "p" }); // 3
  const tenant = await createTenant(ctx, { external_id: "t" }); // 4
  const want = { project_id: project.id, tenant_id: tenant.id };
  await createKey(ctx, { ...want, env: "live" }); // 5
  await createKey(ctx, { ...want, env: "test" }); // 6
  const testKey = await createSecretKey(ctx, { env: "test" }); // 7
  await createSecretKey(ctx, { env: "live" }); // 8
  const member = { action: "workspace_member.joined", target_id: lite.services.newId() } as const;
  await happen(ctx, { ...member, payload: { role: "owner", email: "ada@example.com" } }); // 9
  await happen(ctx, {
    action: "api_key.revoked",
    target_id: lite.services.newId(),
    payload: { env: "test", reason: null },
  }); // 10
  await createKey(ctx, { ...want, env: "test" }); // 11
  return { ctx, test: { services: lite.services, actor: keyActor(ctx.actor.workspace_id, testKey) } };
}

for (const back of backends) {
  describe(`the audit list on ${back}`, () => {
    const shared = sharedServices(back); // each test has a workspace, and so a chain, of its own

    it("is ascending, begins behind after_seq, and says when there is more", async () => {
      const lite = shared();
      const { ctx } = await busyWorkspace(lite);
      const seqs = async (query: { after_seq?: number; limit: number }) => {
        const list = await listAudit(ctx, query);
        return [list.data.map(({ seq }) => seq), list.has_more ?? false];
      };
      expect(await seqs({ limit: 4 })).toEqual([[1, 2, 3, 4], true]);
      expect(await seqs({ after_seq: 4, limit: 4 })).toEqual([[5, 6, 7, 8], true]);
      expect(await seqs({ after_seq: 8, limit: 3 })).toEqual([[9, 10, 11], false]);
      expect(await seqs({ after_seq: 11, limit: 3 })).toEqual([[], false]);
    });

    it("gives a live principal every field of every row, from which the hashes can be computed again", async () => {
      const lite = shared();
      const { ctx } = await busyWorkspace(lite);
      const { data } = await listAudit(ctx, { limit: 200 });
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

    it("names the person behind each row that a person made, to the workspace and to the operator", async () => {
      const lite = shared();
      const { services } = lite;
      const { ctx } = await busyWorkspace(lite);
      const person = { email: "ann@example.com", password: "a long enough password", name: "Ann" };
      const from = { network: "10.0.0.0/24", request_id: "r" };
      await signUp({ services, actor: ANONYMOUS, from }, person);
      const id = String((await lite.sql("select id from users"))[0]?.id);
      const { workspace_id } = ctx.actor;
      const ann = { services, actor: { kind: "session", id: "s", user_id: id, workspace_id, role: "owner" } } as const;
      await createTenant(ann, { external_id: "hers" });
      const shown = { id, email: "ann@example.com", email_verified: false, name: "Ann" };
      const { data } = await listAudit(ctx, { after_seq: 10, limit: 10 });
      expect(data.map(({ actor_type, actor }) => [actor_type, actor])).toEqual([
        ["secret_key", null],
        ["user", shown],
      ]);
      await lite.sql("update users set email_verified_at = 1");
      expect((await listAudit(ctx, { after_seq: 11, limit: 1 })).data[0]?.actor).toEqual({
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
      const lite = shared();
      const { test } = await busyWorkspace(lite);
      const { data } = await listAudit(test, { limit: 200 });
      expect(data.map(({ seq }) => seq)).toEqual([1, 3, 4, 6, 7, 9, 11]);
      expect(data.some((row) => "actor" in row)).toBe(false);
      const member = data.find(({ seq }) => seq === 9);
      expect(member).toMatchObject({ target_type: "workspace_member", payload: {} });
      expect(data.find(({ seq }) => seq === 4)?.payload).toEqual({ external_id: "t", name: null });
      expect(JSON.stringify(data)).not.toContain("ada@example.com");
    });

    it("filters for a test principal before it counts to the limit", async () => {
      const lite = shared();
      const { test } = await busyWorkspace(lite);
      const page = async (after_seq: number) => {
        const list = await listAudit(test, { after_seq, limit: 2 });
        return [list.data.map(({ seq }) => seq), list.has_more ?? false];
      };
      expect(await page(0)).toEqual([[1, 3], true]);
      expect(await page(3)).toEqual([[4, 6], true]);
      expect(await page(6)).toEqual([[7, 9], true]);
      expect(await page(9)).toEqual([[11], false]);
    });

    it("does not take another workspace's test key for one of its own", async () => {
      const lite = shared();
      const { test } = await busyWorkspace(lite);
      const stranger = await vendorOf(lite.services, "test");
      await happen(test, { action: "secret_key.revoked", target_id: stranger.actor.id, payload: { env: "test" } });
      const { data } = await listAudit(test, { after_seq: 11, limit: 10 });
      expect(data).toEqual([]);
    });

    it("shows no workspace another one's rows", async () => {
      const lite = shared();
      await busyWorkspace(lite);
      const other = await vendorOf(lite.services);
      expect((await listAudit(other, { limit: 200 })).data.map(({ action }) => action)).toEqual([
        "workspace.created",
        "secret_key.created",
      ]);
      expect((await listAudit(asOwner(other), { limit: 200 })).data).toHaveLength(2);
    });
  });

  describe(`chain verification on ${back}`, () => {
    const shared = sharedServices(back); // each test has a workspace, and so a chain, of its own

    it("finds an untouched chain good, and an empty one too", async () => {
      const lite = shared();
      const { ctx } = await busyWorkspace(lite);
      const { data } = await listAudit(ctx, { after_seq: 10, limit: 1 });
      expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toEqual({
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
      expect(await verifyChain(lite.services, NIL_WORKSPACE)).toEqual({ object: "audit_chain", ...empty });
    });

    it("shares one run among those who ask for the same chain at the same time", async () => {
      const lite = shared();
      const { ctx } = await busyWorkspace(lite);
      const { store } = lite.services;
      const first = store.verify(ctx.actor.workspace_id, []);
      expect(store.verify(ctx.actor.workspace_id, [])).toBe(first);
      expect(store.verify(NIL_WORKSPACE, [])).not.toBe(first);
      await first;
      const many = await Promise.all([1, 2, 3, 4, 5].map(() => verifyChain(lite.services, NIL_WORKSPACE)));
      expect(many.every(({ verified }) => verified)).toBe(true);
    });

    it("finds the chain good at any moment while it is being written", async () => {
      const lite = shared();
      const ctx = await vendorOf(lite.services);
      const writing = Promise.all(Array.from({ length: 300 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      const verdicts = [];
      for (let i = 0; i < 4; i++) {
        verdicts.push(await verifyChain(lite.services, ctx.actor.workspace_id));
        await latestCheckpoint(lite.services, ctx.actor.workspace_id);
      }
      await writing;
      verdicts.push(await verifyChain(lite.services, ctx.actor.workspace_id));
      expect(verdicts.map(({ reason }) => reason)).toEqual([null, null, null, null, null]);
      expect(verdicts.at(-1)?.checked).toBe(302);
    });

    it("reads a chain of several pages to its end", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
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
      expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({ verified: true, checked: 2502 });
      await dropAppendOnly(lite.target);
      await lite.sql("update audit_log set target_id = 'x' where seq = 2400");
      const broken = { verified: false, checked: 2399, broken_seq: 2400, reason: "hash_mismatch" };
      expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject(broken);
    });

    it("refuses who still waits for it when the store closes", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const waiting = Promise.allSettled([
        lite.services.store.verify(ctx.actor.workspace_id, []),
        lite.services.store.verify(NIL_WORKSPACE, []),
        lite.services.store.verify(lite.services.newId(), []),
      ]);
      await lite.services.store.close();
      for (const result of await waiting) expect(result).toMatchObject({ reason: { failure: "stopping" } });
    });
  });

  describe(`a chain tampered with on ${back}`, () => {
    const shared = sharedServices(back);
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
        const lite = shared();
        const { ctx } = await busyWorkspace(lite);
        for (const statement of sql) await lite.sql(statement.replace("{ws}", ctx.actor.workspace_id));
        expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({ verified: false, ...found });
      });
    }

    it("passes when truncated with its head, as the format says, unless a checkpoint stands for the lost rows", async () => {
      await using lite = await testServices(back);
      const { ctx } = await busyWorkspace(lite);
      const { workspace_id } = ctx.actor;
      await dropAppendOnly(lite.target);
      const truncate = async (seq: number): Promise<void> => {
        await lite.sql("delete from audit_log where seq > $1", [seq]);
        const [last] = await lite.sql("select hash from audit_log where seq = $1", [seq]);
        await lite.sql("update audit_heads set seq = $1, hash = $2", [seq, String(last?.hash)]);
      };
      await truncate(10);
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject({ verified: true, checked: 10 });
      await latestCheckpoint(lite.services, workspace_id);
      await truncate(9);
      const found = { verified: false, checked: 9, head_seq: 9, broken_seq: 10, reason: "checkpoint_mismatch" };
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject(found);
    });

    it("is found broken when it was rewritten and hashed again behind a checkpoint", async () => {
      await using lite = await testServices(back);
      const { ctx } = await busyWorkspace(lite);
      const { workspace_id } = ctx.actor;
      await latestCheckpoint(lite.services, workspace_id);
      await createTenant(ctx, { external_id: "newer" });
      await dropAppendOnly(lite.target);
      await rewriteFrom(lite, workspace_id, 5);
      const found = { verified: false, broken_seq: 11, reason: "checkpoint_mismatch" };
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject(found);
    });

    it("is found broken when the stored checkpoint is not one that our key signed", async () => {
      await using lite = await testServices(back);
      const { ctx } = await busyWorkspace(lite);
      const { workspace_id } = ctx.actor;
      const { note } = await latestCheckpoint(lite.services, workspace_id);
      const forged = note.replace("\n11\n", "\n10\n");
      await lite.sql("update audit_checkpoints set seq = 10, note = $1", [forged]);
      const found = { verified: false, broken_seq: 10, reason: "checkpoint_mismatch" };
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject(found);
    });
  });
}

/** What somebody with the database, and without the signing key, would do: change a row and make the chain fit. */
async function rewriteFrom(lite: TestServices, workspace_id: string, from: number): Promise<void> {
  const rows = await lite.sql("select * from audit_log where workspace_id = $1 order by seq", [workspace_id]);
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
      await lite.sql("update audit_log set payload = $1, prev_hash = $2, hash = $3 where seq = $4", values);
    }
    prev_hash = String(row.hash);
  }
  await lite.sql("update audit_heads set hash = $1", [prev_hash]);
}
