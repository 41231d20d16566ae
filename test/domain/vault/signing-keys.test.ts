// The checkpoint key: created once per database, and sealed.
import { describe, expect, it } from "vitest";
import { ensureCheckpointKey, loadCheckpointSigner, openSigner } from "../../../src/domain/vault/signing-keys.ts";
import { createVault } from "../../../src/domain/vault/vault.ts";
import { verifyEd25519 } from "../../../src/platform/crypto.ts";
import { signingKeyById } from "../../../src/store/queries/signing-keys.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";

for (const backend of runBackends) {
  describe(`the checkpoint key on ${backend}`, () => {
    it("is created once, however many processes start together", async () => {
      await using fixture = await testServices(backend);
      const processes = [fixture.services, fixture.services];
      await using other = backend === "postgres" ? await fixture.another() : undefined;
      if (other) processes.push(other.services, other.services);
      await Promise.all(processes.map((services) => ensureCheckpointKey(services)));
      const keys = await Promise.all(processes.map((services) => loadCheckpointSigner(services)));
      expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1);
      expect(await fixture.sql("select purpose from signing_keys")).toEqual([{ purpose: "checkpoint" }]);
    });

    it("is sealed: another master key or row id does not open it", async () => {
      await using fixture = await testServices(backend);
      await ensureCheckpointKey(fixture.services);
      const [{ id } = { id: "" }] = await fixture.sql("select id from signing_keys");
      const row = await signingKeyById.first(fixture.services.store.read, { id: String(id) });
      if (!row) throw new Error("no key");
      const signer = openSigner(fixture.services, row);
      expect(Buffer.from(signer.publicKey).toString("base64url")).toBe(row.public_key);
      expect(verifyEd25519(signer.publicKey, Buffer.from("m"), signer.sign(Buffer.from("m")))).toBe(true);
      const stranger = { ...fixture.services, vault: createVault(Buffer.alloc(32, 1)) };
      expect(() => openSigner(stranger, row)).toThrow(/authenticate/);
      expect(() => openSigner(fixture.services, { ...row, id: fixture.services.newId() })).toThrow(/authenticate/);
    });
  });
}
