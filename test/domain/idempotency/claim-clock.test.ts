// Claims and clocks: leases and expiry follow the database's clock where processes share one, also when it went back.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { deleteKeys, findRedis, hasRedis, ownPrefix } from "../../../harness/databases/redis.ts";
import { openTestServices, testClock, vendorOf, type TestServices } from "../../../harness/instances/services.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { hash } from "../../../harness/models/idempotency.ts";
import {
  claim,
  claimClock,
  complete,
  databaseClaims,
  heartbeat,
  reapIdempotency,
  release,
} from "../../../src/domain/idempotency/claims.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { checkLimits } from "../../../src/domain/limits/ratelimit.ts";
import { HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";
import { RedisClaims } from "../../../src/ratelimit/redis/claims.ts";
import { LOCK_MS, TTL_MS_DEFAULT } from "../../../src/kernel/idempotency.ts";

/** As in an instance whose clock is not injected. */
function onSystemTime({ services }: TestServices): Services {
  const base = { ...services, claimNow: claimClock(services) };
  return { ...base, claims: databaseClaims(base) };
}

/** Claims in Redis that follow this clock, opened when they are needed. */
function redisClaims(now: () => number): () => Promise<RedisClaims> {
  const opened = new AsyncDisposableStack();
  const prefix = ownPrefix();
  afterAll(() => opened.disposeAsync());
  return async () => {
    const redis = (await findRedis())!;
    const { url } = redis;
    opened.defer(() => redis.stop());
    opened.defer(() => deleteKeys(url, prefix));
    const { claims } = await RedisClaims.open({ urls: [url], prefix, forced: true, now });
    opened.defer(() => claims.close());
    return claims;
  };
}

// Where processes share a database, its clock counts, which nothing here can set.
describe.runIf(runBackends.includes("sqlite"))("a wall clock that is set forward on sqlite", () => {
  const shared = sharedServices("sqlite");

  it("ends no lease of a claim and no window of a limit", async () => {
    const { services, clock } = shared();
    const { actor } = await vendorOf(services);
    const ctx = { services, actor } as never;
    const input = { env: "live" as const, scope_hash: hash("forward"), fingerprint: hash("body") };
    const limits = [
      { id: "minute", limit: 5, window_ms: MINUTE_MS, algorithm: "sliding" as const, scope: "tenant" as const },
    ];
    const request = {
      project_id: services.newId(),
      tenant_id: services.newId(),
      key_id: null,
      env: "live" as const,
      limits,
      cost: 5,
    };
    expect(await checkLimits(ctx, request)).toMatchObject({ allowed: true });
    expect((await claim(ctx, input)).state).toBe("execute");
    clock.jump(2 * MINUTE_MS);
    expect(await claim(ctx, input)).toMatchObject({ state: "in_progress", stolen: false });
    expect(await checkLimits(ctx, { ...request, cost: 1 })).toMatchObject({ allowed: false });
    clock.advance(2 * MINUTE_MS);
    expect(await claim(ctx, input)).toMatchObject({ state: "execute", stolen: true });
    expect(await checkLimits(ctx, request)).toMatchObject({ allowed: true });
  });
});

for (const store of hasRedis() ? [...runBackends, "redis" as const] : runBackends) {
  describe(`a claim from before the clock went back on ${store}`, () => {
    const shared = sharedServices(store === "redis" ? runBackends[0]! : store);
    const onRedis = redisClaims(() => time);
    let time: number;
    const claimed = async (name: string) => {
      const base = { ...shared().services, claimNow: () => time };
      const services = { ...base, claims: store === "redis" ? await onRedis() : databaseClaims(base) };
      const ctx = { services, actor: (await vendorOf(services)).actor } as never;
      const scope = { env: "live" as const, scope_hash: hash(name) };
      const attempt = () => claim(ctx, { ...scope, fingerprint: hash("body") });
      const start = Date.now();
      time = start + HOUR_MS;
      const { lock_token } = await attempt();
      time = start;
      expect(await attempt()).toMatchObject({ state: "in_progress", retry_after_ms: LOCK_MS });
      return { attempt, beat: () => heartbeat(ctx, { ...scope, lock_token: lock_token! }) };
    };

    it("lapses a lease after it was seen, if its holder has crashed", async () => {
      const { attempt } = await claimed("crashed");
      time += LOCK_MS - 1;
      expect((await attempt()).state).toBe("in_progress");
      time += 1;
      expect(await attempt()).toMatchObject({ state: "execute", stolen: true });
    });

    it("is kept by the heartbeats of its holder", async () => {
      const { attempt, beat } = await claimed("alive");
      for (let i = 0; i < 4; i++) {
        time += LOCK_MS / 2;
        expect((await beat()).outcome).toBe("ok");
        expect((await attempt()).state).toBe("in_progress");
      }
    });
  });
}

describe.runIf(runBackends.includes("postgres"))("claims of processes whose clocks differ", () => {
  const shared = sharedServices("postgres");
  let behind: Services;
  let ahead: Services;
  let other: TestServices;
  beforeAll(async () => {
    const fixture = shared();
    behind = onSystemTime(fixture);
    const { data_dir } = fixture.services.settings;
    other = await openTestServices(fixture.target, { data_dir }, testClock(Date.now() + 2 * TTL_MS_DEFAULT));
    ahead = onSystemTime(other);
  });
  afterAll(() => other?.[Symbol.asyncDispose]());

  const fixture = async (name: string) => {
    const { actor } = await vendorOf(behind);
    const scope = { env: "live" as const, scope_hash: hash(name) };
    const of = (services: Services) => ({ services, actor }) as never;
    return { scope, of, input: { ...scope, fingerprint: hash("body") } };
  };

  it("are executed by one of them", async () => {
    const { of, input } = await fixture("one");
    expect(await claim(of(behind), input)).toMatchObject({ state: "execute", stolen: false });
    const second = await claim(of(ahead), input);
    expect(second).toMatchObject({ state: "in_progress", lock_token: null });
    expect(second.retry_after_ms).toBeLessThanOrEqual(LOCK_MS);
  });

  it("are completed, extended and released by the process that has the token, whatever its clock", async () => {
    const { scope, of, input } = await fixture("two");
    const first = await claim(of(ahead), input);
    const held = { ...scope, lock_token: first.lock_token! };
    expect((await heartbeat(of(behind), held)).outcome).toBe("ok");
    expect((await release(of(behind), held)).outcome).toBe("ok");
    const again = await claim(of(behind), input);
    const done = { ...scope, lock_token: again.lock_token!, status: 201, headers: {}, body: null };
    expect((await complete(of(ahead), done)).outcome).toBe("ok");
    expect(await claim(of(behind), input)).toMatchObject({ state: "replay", response: { status: 201 } });
  });

  it("are not deleted before they expire by a leader whose clock is ahead", async () => {
    const { scope, of, input } = await fixture("three");
    const { lock_token } = await claim(of(behind), input);
    await complete(of(behind), { ...scope, lock_token: lock_token!, status: 200, headers: {}, body: null });
    await reapIdempotency(ahead);
    expect((await claim(of(ahead), input)).state).toBe("replay");
  });
});
