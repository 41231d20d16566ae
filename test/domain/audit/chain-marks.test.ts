// Verification of long chains from a signed mark: what it reads, what it says, and what makes it read everything again.
import { describe, expect, it, vi } from "vitest";
import { auditedWorkspace } from "../../../harness/instances/audit-workspace.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { until } from "../../../harness/waiting.ts";
import { verifyChain, verifyDueChains } from "../../../src/domain/audit/chain-verification.ts";
import { latestCheckpoint } from "../../../src/domain/audit/checkpoints.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { formatTimestamp } from "../../../src/kernel/timestamps.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`long audit chains on ${backend}`, () => {
    const open = async () => {
      const fixture = await testServices(backend, { flags: { audit_verify_rows: "5" } });
      const { ctx } = await auditedWorkspace(fixture);
      const { workspace_id } = ctx.actor;
      const verify = (options = {}) => verifyChain(fixture.services, workspace_id, options);
      const add = (external_id: string) => createTenant(ctx, { external_id });
      const now = () => formatTimestamp(fixture.clock.now());
      const idle = () => until(() => fixture.services.store.verifyProgress(workspace_id) === null);
      return Object.assign(fixture, { workspace_id, verify, add, now, idle });
    };
    const payload = (seq: number, text: string) =>
      `update audit_log set payload = '{"text":"${text}"}' where seq = ${seq}`;

    it("are verified whole at first, then from the mark to the head, and both parts count", async () => {
      await using f = await open();
      const full = { seq: 11, at: f.now(), running: false, checked: 11 };
      expect(await f.verify()).toMatchObject({ verified: true, checked: 11, head_seq: 11, full });
      await latestCheckpoint(f.services, f.workspace_id);
      f.clock.advance(10);
      await f.add("later");
      expect(await f.verify()).toMatchObject({ verified: true, checked: 12, head_seq: 12, full });
      await latestCheckpoint(f.services, f.workspace_id);
      expect(await f.verify()).toMatchObject({ verified: true, checked: 12, full });
    });

    it("are verified whole once where that was asked for and there is no mark yet", async () => {
      await using f = await open();
      await dropAppendOnly(f.target);
      await f.sql(payload(3, "x"));
      const verify = vi.spyOn(f.services.store, "verify");
      expect(await f.verify({ full: true })).toMatchObject({ verified: false, broken_seq: 3 });
      await f.idle();
      expect(verify).toHaveBeenCalledTimes(1);
      expect(f.logged.filter(({ event }) => event === "an audit chain is broken")).toHaveLength(1);
    });

    it("show a change after the mark at once, one before it with the next whole verification", async () => {
      await using f = await open();
      await f.verify();
      await f.add("later");
      await dropAppendOnly(f.target);
      const [row] = await f.sql("select payload from audit_log where seq = 3");
      await f.sql(payload(3, "x"));
      expect(await f.verify()).toMatchObject({ verified: true, full: { seq: 11 } });
      f.clock.advance(HOUR_MS);
      await f.verify({ full: true });
      await f.idle();
      await expect.poll(() => f.verify()).toMatchObject({ verified: false, broken_seq: 3, reason: "hash_mismatch" });
      // Putting it back is not enough: only a whole verification says so.
      await f.sql("update audit_log set payload = $1 where seq = 3", [String(row?.payload)]);
      expect(await f.verify()).toMatchObject({ verified: false, broken_seq: 3, checked: 2 });
      f.clock.advance(HOUR_MS);
      await f.verify({ full: true });
      await expect.poll(() => f.verify()).toMatchObject({ verified: true, checked: 12, full: { seq: 12 } });
    });

    it("keep a break that was found after the mark", async () => {
      await using f = await open();
      await f.verify();
      await f.add("later");
      await dropAppendOnly(f.target);
      await f.sql(payload(12, "x"));
      const found = { verified: false, broken_seq: 12, checked: 11, reason: "hash_mismatch" };
      expect(await f.verify()).toMatchObject(found);
      expect(await f.verify()).toMatchObject(found);
    });

    it("trust no mark that our key has not signed", async () => {
      await using f = await open();
      await f.verify();
      await dropAppendOnly(f.target);
      await f.sql(payload(3, "x"));
      await f.sql("update audit_marks set verified_at = verified_at + 1");
      expect(await f.verify()).toMatchObject({ verified: false, broken_seq: 3 });
    });

    it("trust no mark that is older than two verifications: it may have been put back", async () => {
      await using f = await open();
      await f.verify();
      await dropAppendOnly(f.target);
      await f.sql(payload(3, "x"));
      f.clock.advance(48 * HOUR_MS);
      expect(await f.verify()).toMatchObject({ verified: true });
      f.clock.advance(1);
      expect(await f.verify()).toMatchObject({ verified: false, broken_seq: 3 });
    });

    it("trust no mark of a clock that was ahead, and the job replaces it", async () => {
      await using f = await open();
      const marked = async () => (await f.sql("select seq, verified_at from audit_marks"))[0];
      f.clock.advance(30 * DAY_MS);
      await f.verify();
      await dropAppendOnly(f.target);
      await f.sql(payload(3, "x"));
      f.clock.advance(-HOUR_MS); // the clocks of hosts may differ by an hour
      expect(await f.verify()).toMatchObject({ verified: true });
      f.clock.advance(-1);
      await verifyDueChains(f.services);
      expect(await marked()).toEqual({ seq: 2, verified_at: f.clock.now() });
      f.clock.advance(-HOUR_MS - 1);
      expect(await f.verify()).toMatchObject({ verified: false, broken_seq: 3 });
      expect(await marked()).toMatchObject({ verified_at: f.clock.now() });
    });

    it("respond 503 while the first verification takes longer than a request may", async () => {
      await using f = await open();
      await expect(f.verify({ waitMs: 0 })).rejects.toMatchObject({ status: 503, failure: "unavailable" });
      await expect.poll(() => f.verify()).toMatchObject({ verified: true, full: { seq: 11 } });
    });

    it("are verified whole by the job, once a day, and on demand at most once an hour", async () => {
      await using f = await open();
      const marks = async () => (await f.sql("select seq, verified_at from audit_marks"))[0];
      await verifyDueChains(f.services);
      const first = await marks();
      expect(first).toEqual({ seq: 11, verified_at: f.clock.now() });
      await f.add("later");
      f.clock.advance(HOUR_MS - 1);
      await f.verify({ full: true });
      await verifyDueChains(f.services);
      expect(await marks()).toEqual(first);
      f.clock.advance(23 * HOUR_MS + 1);
      await verifyDueChains(f.services);
      expect(await marks()).toEqual({ seq: 12, verified_at: f.clock.now() });
    });
  });
}
