// On PostgreSQL, waits end within the TTL of the credential cache although the notification of a revocation was lost.
import { afterEach, describe, expect, it, vi } from "vitest";
import { keyActor, testClock } from "../../../harness/instances/test-services.ts";
import { CredentialCache } from "../../../src/domain/auth/credential-cache.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import type { Reader } from "../../../src/store/engine/tx.ts";

const actor = keyActor("w", { id: "i", env: "live" });

describe("rechecks of the keys that requests wait with", () => {
  const newCache = (all: () => Promise<unknown[]>) => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    const clock = testClock();
    const read = { dialect: "postgres", all } as unknown as Reader;
    const store = { read, dialect: "postgres", onNotice: () => {}, notify: async () => {}, durable: () => undefined };
    const ledger = new Ledger({ bound: 10, share: 5, shareOf: "account" });
    return {
      clock,
      cache: new CredentialCache({ clock, ttlMs: 5_000, ledger, store: store as never, log: { warn: () => {} } }),
    };
  };
  afterEach(() => void vi.useRealTimers());

  it("end a wait within the TTL, also one that began with an entry at its end", async () => {
    const { clock, cache } = newCache(async () => []);
    cache.set("h", actor, cache.epoch);
    let passed = 0; // since the key was revoked: right after it was cached
    for (; cache.get("h"); passed += 100) clock.advance(100);
    const onEnd = vi.fn<() => void>();
    cache.onEvicted("i", onEnd);
    for (; onEnd.mock.calls.length === 0; passed += 100) await vi.advanceTimersByTimeAsync(100);
    expect(passed).toBeLessThanOrEqual(5_000);
    cache.stop();
  });

  it("never overlap", async () => {
    const replies: PromiseWithResolvers<unknown[]>[] = [];
    const { cache } = newCache(() => {
      const reply = Promise.withResolvers<unknown[]>();
      replies.push(reply);
      return reply.promise;
    });
    cache.onEvicted("i", () => {});
    await vi.advanceTimersByTimeAsync(60_000);
    expect(replies).toHaveLength(1);
    replies[0]?.reject(new Error("timeout"));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(replies).toHaveLength(2);
    cache.stop();
  });
});
