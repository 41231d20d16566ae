// Signed checkpoints: they stand for exactly the rows there are, extend each other, and are never taken back.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { verifyChain } from "../../../src/domain/audit/audit.ts";
import {
  BrokenChain,
  checkpointOrigin,
  latestCheckpoint,
  createCheckpoint,
  runCheckpoints,
} from "../../../src/domain/audit/checkpoints.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { ensureCheckpointKey, loadCheckpointSigner, openSigner } from "../../../src/domain/vault/signing-keys.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { createVault } from "../../../src/domain/vault/vault.ts";
import { fromHex, toBase64 } from "../../../src/kernel/crypto/bytes.ts";
import { NIL_WORKSPACE } from "../../../src/kernel/audit/chain.ts";
import { MerkleTree } from "../../../src/kernel/crypto/merkle.ts";
import { openNote, parseCheckpoint, parseVkey } from "../../../src/kernel/crypto/signed-note.ts";
import { verifyEd25519 } from "../../../src/platform/crypto.ts";
import { signingKeyById } from "../../../src/store/queries/signing-keys.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, sharedServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";

const sha256 = (bytes: Uint8Array): Uint8Array => createHash("sha256").update(bytes).digest();

/** What a stranger with the verifier key reads from a note; null when it is not signed by that key. */
function readNote({ note, vkey }: { note: string; vkey: string }) {
  const key = parseVkey(vkey, sha256);
  const text = key && openNote(note, key, verifyEd25519);
  return text ? parseCheckpoint(text) : null;
}

/** The root over the first rows as they stand, computed from nothing. */
async function rootOf(lite: TestServices, workspace_id: string, size: number): Promise<string> {
  const rows = await lite.sql("select hash from audit_log where workspace_id = $1 order by seq", [workspace_id]);
  const tree = new MerkleTree(sha256);
  for (const { hash } of rows.slice(0, size)) tree.append(fromHex(String(hash)));
  return toBase64(tree.root());
}

function fileOf(services: Services, workspace_id: string): string {
  return join(services.settings.data_dir, "checkpoints", `${workspace_id}.txt`);
}

/** Removes the newest rows and sets the head back, as a thief would. */
async function truncate(lite: TestServices, workspace_id: string, seq: number): Promise<void> {
  await dropAppendOnly(lite.target);
  await lite.sql("delete from audit_log where workspace_id = $1 and seq > $2", [workspace_id, seq]);
  const [last] = await lite.sql("select hash from audit_log where workspace_id = $1 and seq = $2", [workspace_id, seq]);
  const values = [seq, String(last?.hash), workspace_id];
  await lite.sql("update audit_heads set seq = $1, hash = $2 where workspace_id = $3", values);
}

for (const back of backends) {
  describe(`a checkpoint on ${back}`, () => {
    const shared = sharedServices(back);

    it("is signed, names its chain, and stands for exactly the rows there are, at every size", async () => {
      const lite = shared();
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      for (let size = 2; size <= 9; size++) {
        const made = await createCheckpoint(lite.services, workspace_id);
        const said = readNote(made);
        expect(said).toMatchObject({ origin: `127.0.0.1/audit/${workspace_id}`, size });
        expect(toBase64(said?.root ?? new Uint8Array())).toBe(await rootOf(lite, workspace_id, size));
        expect(made.vkey.startsWith(`127.0.0.1/audit/${workspace_id}+`)).toBe(true);
        await createTenant(ctx, { external_id: `t${size}` });
      }
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject({ verified: true, checked: 10 });
    });

    it("is made on demand when none is as new as the head, and only then", async () => {
      const lite = shared();
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      const first = await latestCheckpoint(lite.services, workspace_id);
      lite.clock.advance(60_000);
      expect(await latestCheckpoint(lite.services, workspace_id)).toEqual(first);
      const stored = () =>
        lite.sql("select seq, note from audit_checkpoints where workspace_id = $1 order by seq", [workspace_id]);
      expect(await stored()).toEqual([{ seq: 2, note: first.note }]);
      await createTenant(ctx, { external_id: "t" });
      expect(await latestCheckpoint(lite.services, workspace_id)).toMatchObject({ size: 3, vkey: first.vkey });
      expect((await stored())[0]?.note).toBe(first.note);
    });

    it("that was kept is told only once it is durable", async () => {
      const lite = shared();
      const { workspace_id } = (await vendorOf(lite.services)).actor;
      await latestCheckpoint(lite.services, workspace_id);
      using _durable = vi.spyOn(lite.services.store, "durable").mockRejectedValue(new Error("the disk is gone"));
      await expect(latestCheckpoint(lite.services, workspace_id)).rejects.toThrow("the disk is gone");
      await expect(verifyChain(lite.services, workspace_id)).rejects.toThrow("the disk is gone");
    });

    it("of an empty chain has size 0, and the deployment chain has them too", async () => {
      const lite = shared();
      const made = await latestCheckpoint(lite.services, NIL_WORKSPACE);
      const said = readNote(made);
      expect(said).toMatchObject({ origin: `127.0.0.1/audit/${NIL_WORKSPACE}`, size: 0 });
      expect(toBase64(said?.root ?? new Uint8Array())).toBe(toBase64(sha256(new Uint8Array())));
      expect(await verifyChain(lite.services, NIL_WORKSPACE)).toMatchObject({ verified: true, checked: 0 });
    });

    it("keeps the host of the first start in its origin, without a port", async () => {
      await using lite = await testServices(back, { flags: { public_url: "https://keys.example.com:8443" } });
      const ctx = await vendorOf(lite.services);
      const origin = `keys.example.com/audit/${ctx.actor.workspace_id}`;
      expect(await checkpointOrigin(lite.services, ctx.actor.workspace_id)).toBe(origin);
      const settings = { ...lite.services.settings, public_url: "https://renamed.example.com" };
      expect(await checkpointOrigin({ ...lite.services, settings }, ctx.actor.workspace_id)).toBe(origin);
    });

    it("has one host, though two servers of different names start together", async () => {
      await using lite = await testServices(back, { flags: { public_url: "https://one.example.com" } });
      await using other = await lite.another(lite.target, { public_url: "https://two.example.com" });
      const origins = await Promise.all([lite, other].map(({ services }) => checkpointOrigin(services, "w")));
      expect(new Set(origins).size).toBe(1);
      expect(await checkpointOrigin(other.services, "w")).toBe(origins[0]);
    });

    it("costs only the new rows: those before the last one are not read again", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "a" });
      await createCheckpoint(lite.services, workspace_id);
      await createTenant(ctx, { external_id: "b" });
      const expected = await rootOf(lite, workspace_id, 4);
      await dropAppendOnly(lite.target);
      await lite.sql("update audit_log set hash = $1 where seq = 2", ["f".repeat(64)]);
      const said = readNote(await createCheckpoint(lite.services, workspace_id));
      expect(toBase64(said?.root ?? new Uint8Array())).toBe(expected);
    });

    for (const frontier of ["[]", "not json", `["${"A".repeat(43)}="]`]) {
      it(`is made from the first row on when the kept frontier is spoilt: ${frontier.slice(0, 8)}`, async () => {
        const lite = shared();
        const ctx = await vendorOf(lite.services);
        const { workspace_id } = ctx.actor;
        await createCheckpoint(lite.services, workspace_id);
        await lite.sql("update audit_checkpoints set frontier = $1 where workspace_id = $2", [frontier, workspace_id]);
        await createTenant(ctx, { external_id: "t" });
        const said = readNote(await createCheckpoint(lite.services, workspace_id));
        expect(toBase64(said?.root ?? new Uint8Array())).toBe(await rootOf(lite, workspace_id, 3));
      });
    }

    it("is never signed for rows other than those that were signed before", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      await createCheckpoint(lite.services, workspace_id);
      await lite.sql("update audit_checkpoints set frontier = '[]'");
      await dropAppendOnly(lite.target);
      await lite.sql("update audit_log set hash = $1 where seq = 1", ["f".repeat(64)]);
      await createTenant(ctx, { external_id: "t" });
      await expect(createCheckpoint(lite.services, workspace_id)).rejects.toThrow(BrokenChain);
    });

    it("is never signed over a missing row, nor when the head is not the last row", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "t" });
      await dropAppendOnly(lite.target);
      await lite.sql("update audit_heads set hash = $1", ["f".repeat(64)]);
      await expect(createCheckpoint(lite.services, workspace_id)).rejects.toThrow(BrokenChain);
      await lite.sql("delete from audit_log where seq = 2");
      await expect(createCheckpoint(lite.services, workspace_id)).rejects.toThrow("row 2 is missing");
      expect(await lite.sql("select seq from audit_checkpoints")).toEqual([]);
    });

    it("is never signed for a chain that has become shorter: the larger note stays the answer", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      await createTenant(ctx, { external_id: "t" });
      const before = await latestCheckpoint(lite.services, workspace_id);
      await truncate(lite, workspace_id, 2);
      await expect(createCheckpoint(lite.services, workspace_id)).rejects.toThrow("2 rows, but 3 were signed");
      expect(await latestCheckpoint(lite.services, workspace_id)).toEqual(before);
      const found = { verified: false, checked: 2, broken_seq: 3, reason: "checkpoint_mismatch" };
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject(found);
    });
  });

  describe(`the copies of checkpoints on ${back}`, () => {
    const shared = sharedServices(back);

    it("are appended to a private file of the chain, one note after another", async () => {
      const lite = shared();
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      const first = await latestCheckpoint(lite.services, workspace_id);
      await createTenant(ctx, { external_id: "t" });
      const second = await latestCheckpoint(lite.services, workspace_id);
      await createCheckpoint(lite.services, workspace_id); // the same again: no second copy
      const file = fileOf(lite.services, workspace_id);
      expect(readFileSync(file, "utf8")).toBe(`${first.note}\n${second.note}\n`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(statSync(join(lite.services.settings.data_dir, "checkpoints")).mode & 0o777).toBe(0o700);
    });

    it("are left out where there is no data dir, and a failing copy fails nothing", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      rmSync(lite.services.settings.data_dir, { recursive: true });
      await latestCheckpoint(lite.services, workspace_id);
      expect(existsSync(lite.services.settings.data_dir)).toBe(false);
      const settings = { ...lite.services.settings, data_dir: "/dev/null" };
      await createTenant(ctx, { external_id: "t" });
      expect(await createCheckpoint({ ...lite.services, settings }, workspace_id)).toMatchObject({ size: 3 });
      expect(lite.logged.map(({ level, event }) => `${level} ${event}`)).toContain("warn audit_checkpoint_file");
    });

    it("are logged with nothing but the chain and its head", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      await latestCheckpoint(lite.services, workspace_id);
      const [head] = await lite.sql("select seq, hash from audit_heads");
      expect(lite.logged).toEqual([
        {
          level: "info",
          event: "audit_checkpoint",
          fields: { workspace_id, head_seq: head?.seq, head_hash: head?.hash },
        },
      ]);
    });
  });

  describe(`the checkpoint job on ${back}`, () => {
    it("signs every chain with new rows, and no other", async () => {
      await using lite = await testServices(back);
      const [one, two] = [await vendorOf(lite.services), await vendorOf(lite.services)];
      expect(await runCheckpoints(lite.services)).toBe(2);
      expect(await runCheckpoints(lite.services)).toBe(0);
      await createTenant(two, { external_id: "t" });
      expect(await runCheckpoints(lite.services)).toBe(1);
      const rows = await lite.sql("select workspace_id, seq from audit_checkpoints order by workspace_id, seq");
      expect(rows).toEqual([
        { workspace_id: one.actor.workspace_id, seq: 2 },
        { workspace_id: two.actor.workspace_id, seq: 2 },
        { workspace_id: two.actor.workspace_id, seq: 3 },
      ]);
    });

    it("takes only chains with so many new rows when asked to", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      expect(await runCheckpoints(lite.services, { rows: 3 })).toBe(0);
      await createTenant(ctx, { external_id: "t" });
      expect(await runCheckpoints(lite.services, { rows: 3 })).toBe(1);
    });

    it("signs the others when one chain is broken, and says which is", async () => {
      await using lite = await testServices(back);
      const [bad, good] = [await vendorOf(lite.services), await vendorOf(lite.services)];
      await dropAppendOnly(lite.target);
      await lite.sql("delete from audit_log where seq = 1 and workspace_id = $1", [bad.actor.workspace_id]);
      expect(await runCheckpoints(lite.services)).toBe(1);
      const rows = await lite.sql("select workspace_id from audit_checkpoints");
      expect(rows).toEqual([{ workspace_id: good.actor.workspace_id }]);
      const errors = lite.logged.filter(({ level }) => level === "error");
      expect(errors).toMatchObject([
        { event: "audit_checkpoint_failed", fields: { workspace_id: bad.actor.workspace_id } },
      ]);
    });
  });

  describe(`the checkpoint key on ${back}`, () => {
    it("is made once, by however many start together", async () => {
      await using lite = await testServices(back);
      const racks = [lite.services, lite.services];
      await using other = back === "postgres" ? await lite.another() : undefined;
      if (other) racks.push(other.services, other.services);
      await Promise.all(racks.map((services) => ensureCheckpointKey(services)));
      const keys = await Promise.all(racks.map((services) => loadCheckpointSigner(services)));
      expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1);
      expect(await lite.sql("select purpose from signing_keys")).toEqual([{ purpose: "checkpoint" }]);
    });

    it("is kept sealed: another master key, or another row, does not open it", async () => {
      await using lite = await testServices(back);
      await ensureCheckpointKey(lite.services);
      const [{ id } = { id: "" }] = await lite.sql("select id from signing_keys");
      const row = await signingKeyById.first(lite.services.store.read, { id: String(id) });
      if (!row) throw new Error("no key");
      const signer = openSigner(lite.services, row);
      expect(Buffer.from(signer.publicKey).toString("base64url")).toBe(row.public_key);
      expect(verifyEd25519(signer.publicKey, Buffer.from("m"), signer.sign(Buffer.from("m")))).toBe(true);
      const stranger = { ...lite.services, vault: createVault(Buffer.alloc(32, 1)) };
      expect(() => openSigner(stranger, row)).toThrow(/authenticate/);
      expect(() => openSigner(lite.services, { ...row, id: lite.services.newId() })).toThrow(/authenticate/);
    });

    it("signs the same rows anew after it was replaced, and the chain verifies", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      const before = await latestCheckpoint(lite.services, workspace_id);
      await lite.sql("delete from deployment where name = 'checkpoint_key_id'");
      const after = await latestCheckpoint(lite.services, workspace_id);
      expect(after.vkey).not.toBe(before.vkey);
      expect(readNote(after)).toEqual(readNote(before));
      expect(await lite.sql("select note from audit_checkpoints")).toEqual([{ note: after.note }]);
      expect(await verifyChain(lite.services, workspace_id)).toMatchObject({ verified: true });
    });
  });
}
