// The life of the keys that sign embed tokens, with the clock in hand: published before use, kept after, standby always.
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
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";

const NIL = "00000000-0000-0000-0000-000000000000";

const states = async ({ services }: TestServices): Promise<Record<string, string>> =>
  Object.fromEntries((await listSigningKeys(services)).map(({ state, kid }) => [state, kid]));
const sorted = (...kids: (string | undefined)[]): string[] => kids.map(String).toSorted();
const published = async ({ services }: TestServices): Promise<string[]> =>
  sorted(...(await publishedKeys(services)).map(({ kid }) => kid));
const signer = async ({ services }: TestServices): Promise<string | undefined> =>
  (await loadEmbedSigner(services))?.kid;
const rotations = (lite: TestServices) =>
  lite.sql(
    `select actor_type, target_type, payload from audit_log where workspace_id = '${NIL}' and action = 'signing_key.rotated'`,
  );

for (const back of backends) {
  describe(`embed signing keys on ${back}`, () => {
    it("there are none and nothing signs before the first start", async () => {
      await using lite = await testServices(back);
      expect(await published(lite)).toEqual([]);
      expect(await signer(lite)).toBeUndefined();
    });

    it("the first start makes one that signs and a standby, both published, named by their thumbprint", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      await ensureEmbedKeys(lite.services);
      const { signing, standby } = await states(lite);
      expect(await published(lite)).toEqual(sorted(signing, standby));
      expect(await signer(lite)).toBe(signing);
      for (const { kid, x } of await publishedKeys(lite.services)) expect(kid).toBe(thumbprint(x));
      expect(JSON.stringify(await publishedKeys(lite.services))).not.toContain('"d"');
    });

    it("rotates after 90 days, not a minute sooner, and records it in the deployment's chain", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      const { signing: old, standby: heir } = await states(lite);
      lite.clock.advance(ROTATE_EVERY_MS - 60_000);
      await maintainEmbedKeys(lite.services);
      expect(await signer(lite)).toBe(old);
      lite.clock.advance(60_000);
      await maintainEmbedKeys(lite.services);
      expect(await signer(lite)).toBe(heir);
      const now = await states(lite);
      expect(now).toMatchObject({ signing: heir, retired: old });
      expect(await published(lite)).toEqual(sorted(old, heir, now.standby));
      lite.clock.advance(PUBLISH_MS - 1);
      expect(await published(lite)).toContain(old);
      lite.clock.advance(1);
      expect(await published(lite)).toEqual(sorted(heir, now.standby));
      await maintainEmbedKeys(lite.services);
      const rows = await lite.sql(`select sealed_private_key from signing_keys where kid = '${old}'`);
      expect(rows[0]?.sealed_private_key).toBeNull();
      expect(await rotations(lite)).toMatchObject([{ actor_type: "system", target_type: "signing_key" }]);
    });

    it("a young standby signs only when it has been published for 15 minutes", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      const ctx = { services: lite.services, actor: SYSTEM };
      const { signing: old, standby: heir } = await states(lite);
      lite.clock.advance(60_000);
      await rotateSigningKey(ctx);
      expect(await states(lite)).toMatchObject({ signing: old, next: heir });
      await rotateSigningKey(ctx); // while one is under way, nothing more happens
      expect(await rotations(lite)).toHaveLength(1);
      lite.clock.advance(PUBLISH_MS - 60_000 - 1);
      expect(await signer(lite)).toBe(old);
      lite.clock.advance(1);
      expect(await signer(lite)).toBe(heir);
      expect(await published(lite)).toContain(old);
    });

    it("--compromised drops the old key at once, private part and all, and the standby signs", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      const ctx = { services: lite.services, actor: SYSTEM };
      const { signing: old, standby: heir } = await states(lite);
      await rotateSigningKey(ctx, { compromised: true });
      expect(await signer(lite)).toBe(heir);
      const after = await states(lite);
      expect(after).toMatchObject({ removed: old, signing: heir });
      expect(await published(lite)).toEqual(sorted(heir, after.standby));
      const rows = await lite.sql(
        "select kid from signing_keys where purpose = 'embed' and sealed_private_key is null",
      );
      expect(rows).toEqual([{ kid: old }]);
      const [row] = await rotations(lite);
      expect(JSON.parse(String(row?.payload))).toMatchObject({ kid: heir, previous_kid: old, compromised: true });
    });

    it("both can be made anew, for a restored database whose master key is gone", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      const before = await published(lite);
      await recreateEmbedKeys({ services: lite.services, actor: SYSTEM });
      const { signing, standby } = await states(lite);
      expect(await published(lite)).toEqual(sorted(signing, standby));
      expect(before).not.toContain(signing);
      expect(before).not.toContain(standby);
      expect(await rotations(lite)).toHaveLength(1);
    });

    it("--compromised during a rotation promotes the key that was next and drops all that ever signed", async () => {
      await using lite = await testServices(back);
      await ensureEmbedKeys(lite.services);
      const ctx = { services: lite.services, actor: SYSTEM };
      await rotateSigningKey(ctx);
      const { next, standby } = await states(lite);
      await rotateSigningKey(ctx, { compromised: true });
      expect(await signer(lite)).toBe(next);
      expect(await published(lite)).toEqual(sorted(next, standby));
    });
  });
}

describe.runIf(backends.includes("postgres"))("two processes on one database", () => {
  it("start together with the same two keys", async () => {
    await using one = await testServices("postgres");
    await using two = await one.another();
    await Promise.all([ensureEmbedKeys(one.services), ensureEmbedKeys(two.services)]);
    expect(await published(one)).toHaveLength(2);
    expect(await published(two)).toEqual(await published(one));
  });

  it("rotate once when both find it due, and once when both are told that the same key is compromised", async () => {
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

  it("a process whose clock is behind neither signs with nor publishes a compromised key", async () => {
    await using one = await testServices("postgres");
    await ensureEmbedKeys(one.services);
    const kid = await signer(one);
    await rotateSigningKey({ services: one.services, actor: SYSTEM }, { compromised: true });
    one.clock.advance(-3_000);
    expect(await signer(one)).not.toBe(kid);
    expect(await published(one)).not.toContain(kid);
  });
});
