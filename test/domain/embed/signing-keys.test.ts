// The life cycle of embed signing keys: published before use, kept after it, and always a standby.
import { describe, expect, it } from "vitest";
import { SYSTEM } from "../../../src/domain/core/actor.ts";
import {
  ensureEmbedKeys,
  listSigningKeys,
  loadEmbedSigner,
  maintainEmbedKeys,
  publishedKeys,
  PUBLISH_MS,
  recreateEmbedKeys,
  ROTATE_EVERY_MS,
  rotateSigningKey,
} from "../../../src/domain/embed/signing-keys.ts";
import { thumbprint } from "../../../src/domain/vault/signing-keys.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";

const NIL = "00000000-0000-0000-0000-000000000000";

const states = async ({ services }: TestServices): Promise<Record<string, string>> =>
  Object.fromEntries((await listSigningKeys(services)).map(({ state, kid }) => [state, kid]));
const sorted = (...kids: (string | undefined)[]): string[] => kids.map(String).toSorted();
const published = async ({ services }: TestServices): Promise<string[]> =>
  sorted(...(await publishedKeys(services)).map(({ kid }) => kid));
const signer = async ({ services }: TestServices): Promise<string | undefined> =>
  (await loadEmbedSigner(services))?.kid;
const rotations = (fixture: TestServices) =>
  fixture.sql(
    `select actor_type, target_type, payload from audit_log where workspace_id = '${NIL}' and action = 'signing_key.rotated'`,
  );

for (const backend of runBackends) {
  describe(`embed signing keys on ${backend}`, () => {
    it("do not exist before the first start", async () => {
      await using fixture = await testServices(backend);
      expect(await published(fixture)).toEqual([]);
      expect(await signer(fixture)).toBeUndefined();
    });

    it("are created at the first start: one signs, one is on standby, both published under tsuccessor thumbprints", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      await ensureEmbedKeys(fixture.services);
      const { signing, standby } = await states(fixture);
      expect(await published(fixture)).toEqual(sorted(signing, standby));
      expect(await signer(fixture)).toBe(signing);
      for (const { kid, x } of await publishedKeys(fixture.services)) expect(kid).toBe(thumbprint(x));
      expect(JSON.stringify(await publishedKeys(fixture.services))).not.toContain('"d"');
    });

    it("rotate after 90 days, not a minute sooner, with a row in the deployment's audit chain", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      const { signing: old, standby: successor } = await states(fixture);
      fixture.clock.advance(ROTATE_EVERY_MS - 60_000);
      await maintainEmbedKeys(fixture.services);
      expect(await signer(fixture)).toBe(old);
      fixture.clock.advance(60_000);
      await maintainEmbedKeys(fixture.services);
      expect(await signer(fixture)).toBe(successor);
      const now = await states(fixture);
      expect(now).toMatchObject({ signing: successor, retired: old });
      expect(await published(fixture)).toEqual(sorted(old, successor, now.standby));
      fixture.clock.advance(PUBLISH_MS - 1);
      expect(await published(fixture)).toContain(old);
      fixture.clock.advance(1);
      expect(await published(fixture)).toEqual(sorted(successor, now.standby));
      await maintainEmbedKeys(fixture.services);
      const rows = await fixture.sql(`select sealed_private_key from signing_keys where kid = '${old}'`);
      expect(rows[0]?.sealed_private_key).toBeNull();
      expect(await rotations(fixture)).toMatchObject([{ actor_type: "system", target_type: "signing_key" }]);
    });

    it("sign only after they have been published for 15 minutes", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      const ctx = { services: fixture.services, actor: SYSTEM };
      const { signing: old, standby: successor } = await states(fixture);
      fixture.clock.advance(60_000);
      await rotateSigningKey(ctx);
      expect(await states(fixture)).toMatchObject({ signing: old, next: successor });
      await rotateSigningKey(ctx); // ignored while a rotation is in progress
      expect(await rotations(fixture)).toHaveLength(1);
      fixture.clock.advance(PUBLISH_MS - 60_000 - 1);
      expect(await signer(fixture)).toBe(old);
      fixture.clock.advance(1);
      expect(await signer(fixture)).toBe(successor);
      expect(await published(fixture)).toContain(old);
    });

    it("are removed at once with --compromised, including the private key, and the standby signs", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      const ctx = { services: fixture.services, actor: SYSTEM };
      const { signing: old, standby: successor } = await states(fixture);
      await rotateSigningKey(ctx, { compromised: true });
      expect(await signer(fixture)).toBe(successor);
      const after = await states(fixture);
      expect(after).toMatchObject({ removed: old, signing: successor });
      expect(await published(fixture)).toEqual(sorted(successor, after.standby));
      const rows = await fixture.sql(
        "select kid from signing_keys where purpose = 'embed' and sealed_private_key is null",
      );
      expect(rows).toEqual([{ kid: old }]);
      const [row] = await rotations(fixture);
      expect(JSON.parse(String(row?.payload))).toMatchObject({ kid: successor, previous_kid: old, compromised: true });
    });

    it("can both be recreated, for a restored database without its master key", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      const before = await published(fixture);
      await recreateEmbedKeys({ services: fixture.services, actor: SYSTEM });
      const { signing, standby } = await states(fixture);
      expect(await published(fixture)).toEqual(sorted(signing, standby));
      expect(before).not.toContain(signing);
      expect(before).not.toContain(standby);
      expect(await rotations(fixture)).toHaveLength(1);
    });

    it("promote the next key with --compromised during a rotation, and remove all that ever signed", async () => {
      await using fixture = await testServices(backend);
      await ensureEmbedKeys(fixture.services);
      const ctx = { services: fixture.services, actor: SYSTEM };
      await rotateSigningKey(ctx);
      const { next, standby } = await states(fixture);
      await rotateSigningKey(ctx, { compromised: true });
      expect(await signer(fixture)).toBe(next);
      expect(await published(fixture)).toEqual(sorted(next, standby));
    });
  });
}

describe.runIf(runBackends.includes("postgres"))("two processes on one database", () => {
  it("start together with the same two keys", async () => {
    await using one = await testServices("postgres");
    await using two = await one.another();
    await Promise.all([ensureEmbedKeys(one.services), ensureEmbedKeys(two.services)]);
    expect(await published(one)).toHaveLength(2);
    expect(await published(two)).toEqual(await published(one));
  });

  it("rotate once when both find it due, and once when both get --compromised for the same key", async () => {
    await using one = await testServices("postgres");
    await using two = await one.another();
    await ensureEmbedKeys(one.services);
    one.clock.advance(ROTATE_EVERY_MS);
    await Promise.all([maintainEmbedKeys(one.services), maintainEmbedKeys(two.services)]);
    expect(await rotations(one)).toHaveLength(1);
    expect(await signer(two)).toBe(await signer(one));
    const kid = await signer(one);
    await Promise.all(
      [one, two].map(({ services }) => rotateSigningKey({ services, actor: SYSTEM }, { kid, compromised: true })),
    );
    expect(await rotations(one)).toHaveLength(2);
    expect(await signer(two)).toBe(await signer(one));
    expect(await published(two)).not.toContain(kid);
  });

  it("never sign with or publish a compromised key, even if the clock of one is behind", async () => {
    await using one = await testServices("postgres");
    await ensureEmbedKeys(one.services);
    const kid = await signer(one);
    await rotateSigningKey({ services: one.services, actor: SYSTEM }, { compromised: true });
    one.clock.advance(-3_000);
    expect(await signer(one)).not.toBe(kid);
    expect(await published(one)).not.toContain(kid);
  });
});
