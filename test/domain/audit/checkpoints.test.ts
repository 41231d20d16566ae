// Signed checkpoints: each covers exactly the rows of its chain, extends the one before, and is never withdrawn.
import { createHash } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import {
  BrokenChain,
  checkpointOrigin,
  latestCheckpoint,
  createCheckpoint,
} from "../../../src/domain/audit/checkpoints.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { fromHex, toBase64 } from "../../../src/kernel/crypto/bytes.ts";
import { NIL_WORKSPACE } from "../../../src/kernel/audit/chain.ts";
import { MerkleTree } from "../../../src/kernel/crypto/merkle.ts";
import { openNote, parseCheckpoint, parseVkey } from "../../../src/kernel/crypto/signed-note.ts";
import { verifyEd25519 } from "../../../src/platform/crypto.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, sharedServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";

const sha256 = (bytes: Uint8Array): Uint8Array => createHash("sha256").update(bytes).digest();

/** Reads a note with the verifier key alone; null when it is not signed by that key. */
function readNote({ note, vkey }: { note: string; vkey: string }) {
  const key = parseVkey(vkey, sha256);
  const text = key && openNote(note, key, verifyEd25519);
  return text ? parseCheckpoint(text) : null;
}

/** The root over the first rows in the database, computed independently. */
async function rootOf(fixture: TestServices, workspace_id: string, size: number): Promise<string> {
  const rows = await fixture.sql("select hash from audit_log where workspace_id = $1 order by seq", [workspace_id]);
  const tree = new MerkleTree(sha256);
  for (const { hash } of rows.slice(0, size)) tree.append(fromHex(String(hash)));
  return toBase64(tree.root());
}

/** Removes the newest rows and sets the head back, as an attacker would. */
async function truncate(fixture: TestServices, workspace_id: string, seq: number): Promise<void> {
  await dropAppendOnly(fixture.target);
  await fixture.sql("delete from audit_log where workspace_id = $1 and seq > $2", [workspace_id, seq]);
  const [last] = await fixture.sql("select hash from audit_log where workspace_id = $1 and seq = $2", [
    workspace_id,
    seq,
  ]);
  const values = [seq, String(last?.hash), workspace_id];
  await fixture.sql("update audit_heads set seq = $1, hash = $2 where workspace_id = $3", values);
}

for (const backend of runBackends) {
  describe(`a checkpoint on ${backend}`, () => {
    const shared = sharedServices(backend);

    it("is signed, names its chain, and covers exactly its rows, at every size", async () => {
      const fixture = shared();
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      for (let size = 2; size <= 9; size++) {
        const made = await createCheckpoint(fixture.services, workspace_id);
        const checkpoint = readNote(made);
        expect(checkpoint).toMatchObject({ origin: `127.0.0.1/audit/${workspace_id}`, size });
        expect(toBase64(checkpoint?.root ?? new Uint8Array())).toBe(await rootOf(fixture, workspace_id, size));
        expect(made.vkey.startsWith(`127.0.0.1/audit/${workspace_id}+`)).toBe(true);
        await createTenant(ctx, { external_id: `t${size}` });
      }
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject({ verified: true, checked: 10 });
    });

    it("is created on demand only when the chain has grown since the last one", async () => {
      const fixture = shared();
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const first = await latestCheckpoint(fixture.services, workspace_id);
      fixture.clock.advance(60_000);
      expect(await latestCheckpoint(fixture.services, workspace_id)).toEqual(first);
      const stored = () =>
        fixture.sql("select seq, note from audit_checkpoints where workspace_id = $1 order by seq", [workspace_id]);
      expect(await stored()).toEqual([{ seq: 2, note: first.note }]);
      await createTenant(ctx, { external_id: "t" });
      expect(await latestCheckpoint(fixture.services, workspace_id)).toMatchObject({ size: 3, vkey: first.vkey });
      expect((await stored())[0]?.note).toBe(first.note);
    });

    it("is returned only once it is durable", async () => {
      const fixture = shared();
      const { workspace_id } = (await vendorOf(fixture.services)).actor;
      await latestCheckpoint(fixture.services, workspace_id);
      using _durable = vi.spyOn(fixture.services.store, "durable").mockRejectedValue(new Error("the disk is gone"));
      await expect(latestCheckpoint(fixture.services, workspace_id)).rejects.toThrow("the disk is gone");
      await expect(verifyChain(fixture.services, workspace_id)).rejects.toThrow("the disk is gone");
    });

    it("of an empty chain has size 0, and the deployment chain has them too", async () => {
      const fixture = shared();
      const made = await latestCheckpoint(fixture.services, NIL_WORKSPACE);
      const checkpoint = readNote(made);
      expect(checkpoint).toMatchObject({ origin: `127.0.0.1/audit/${NIL_WORKSPACE}`, size: 0 });
      expect(toBase64(checkpoint?.root ?? new Uint8Array())).toBe(toBase64(sha256(new Uint8Array())));
      expect(await verifyChain(fixture.services, NIL_WORKSPACE)).toMatchObject({ verified: true, checked: 0 });
    });

    it("keeps the host of the first start in its origin, without the port", async () => {
      await using fixture = await testServices(backend, { flags: { public_url: "https://keys.example.com:8443" } });
      const ctx = await vendorOf(fixture.services);
      const origin = `keys.example.com/audit/${ctx.actor.workspace_id}`;
      expect(await checkpointOrigin(fixture.services, ctx.actor.workspace_id)).toBe(origin);
      const settings = { ...fixture.services.settings, public_url: "https://renamed.example.com" };
      expect(await checkpointOrigin({ ...fixture.services, settings }, ctx.actor.workspace_id)).toBe(origin);
    });

    it("has one host, even if two servers with different names start together", async () => {
      await using fixture = await testServices(backend, { flags: { public_url: "https://one.example.com" } });
      await using other = await fixture.another(fixture.target, { public_url: "https://two.example.com" });
      const origins = await Promise.all([fixture, other].map(({ services }) => checkpointOrigin(services, "w")));
      expect(new Set(origins).size).toBe(1);
      expect(await checkpointOrigin(other.services, "w")).toBe(origins[0]);
    });

    it("reads only the rows after the last checkpoint", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "a" });
      await createCheckpoint(fixture.services, workspace_id);
      await createTenant(ctx, { external_id: "b" });
      const expected = await rootOf(fixture, workspace_id, 4);
      await dropAppendOnly(fixture.target);
      await fixture.sql("update audit_log set hash = $1 where seq = 2", ["f".repeat(64)]);
      const checkpoint = readNote(await createCheckpoint(fixture.services, workspace_id));
      expect(toBase64(checkpoint?.root ?? new Uint8Array())).toBe(expected);
    });

    for (const frontier of ["[]", "not json", `["${"A".repeat(43)}="]`]) {
      it(`is computed from the first row when the stored frontier is corrupt: ${frontier.slice(0, 8)}`, async () => {
        const fixture = shared();
        const ctx = await vendorOf(fixture.services);
        const { workspace_id } = ctx.actor;
        await createCheckpoint(fixture.services, workspace_id);
        await fixture.sql("update audit_checkpoints set frontier = $1 where workspace_id = $2", [
          frontier,
          workspace_id,
        ]);
        await createTenant(ctx, { external_id: "t" });
        const checkpoint = readNote(await createCheckpoint(fixture.services, workspace_id));
        expect(toBase64(checkpoint?.root ?? new Uint8Array())).toBe(await rootOf(fixture, workspace_id, 3));
      });
    }

    it("is never signed for rows other than those that were signed before", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      await createCheckpoint(fixture.services, workspace_id);
      await fixture.sql("update audit_checkpoints set frontier = '[]'");
      await dropAppendOnly(fixture.target);
      await fixture.sql("update audit_log set hash = $1 where seq = 1", ["f".repeat(64)]);
      await createTenant(ctx, { external_id: "t" });
      await expect(createCheckpoint(fixture.services, workspace_id)).rejects.toThrow(BrokenChain);
    });

    it("is never signed over a missing row, nor when the head is not the last row", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "t" });
      await dropAppendOnly(fixture.target);
      await fixture.sql("update audit_heads set hash = $1", ["f".repeat(64)]);
      await expect(createCheckpoint(fixture.services, workspace_id)).rejects.toThrow(BrokenChain);
      await fixture.sql("delete from audit_log where seq = 2");
      await expect(createCheckpoint(fixture.services, workspace_id)).rejects.toThrow("row 2 is missing");
      expect(await fixture.sql("select seq from audit_checkpoints")).toEqual([]);
    });

    it("is never signed for a chain that has become shorter: the larger note is still returned", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "t" });
      const before = await latestCheckpoint(fixture.services, workspace_id);
      await truncate(fixture, workspace_id, 2);
      await expect(createCheckpoint(fixture.services, workspace_id)).rejects.toThrow("2 rows, but 3 were signed");
      expect(await latestCheckpoint(fixture.services, workspace_id)).toEqual(before);
      const found = { verified: false, checked: 2, broken_seq: 3, reason: "checkpoint_mismatch" };
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject(found);
    });

    it("is signed again after the key was replaced, and the chain verifies", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const before = await latestCheckpoint(fixture.services, workspace_id);
      await fixture.sql("delete from deployment where name = 'checkpoint_key_id'");
      const after = await latestCheckpoint(fixture.services, workspace_id);
      expect(after.vkey).not.toBe(before.vkey);
      expect(readNote(after)).toEqual(readNote(before));
      expect(await fixture.sql("select note from audit_checkpoints")).toEqual([{ note: after.note }]);
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject({ verified: true });
    });
  });
}
