// The feed's in-process state alone, on a fake store: which heads it caches, and its subscriptions.
import { describe, expect, it } from "vitest";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { LargeResponses } from "../../../src/fairness/large-responses.ts";
import { PageCache } from "../../../src/domain/policy/page-cache.ts";
import { Feed } from "../../../src/domain/policy/feed.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { turns, until } from "../../../harness/waiting.ts";
import type { Store } from "../../../src/store/store.ts";

const row = {
  workspace_id: "w",
  policy_version: 3,
  min_delta_version: 1,
  default_rate_limits: "[]",
  deleted_at: null,
  features: 0,
  key_prefixes: '["kr"]',
};
const head = {
  project_id: "p",
  workspace_id: "w",
  version: 3,
  min_delta_version: 1,
  default_rate_limits: "[]",
  deleted: false,
  features: 0,
  key_prefixes: '["kr"]',
};

const OWNER = cellOwner("w", "live");
const at = (project_id: string, version = 3) => ({ project_id, version });

function feedOn(dialect: "sqlite" | "postgres") {
  const listeners: { bump?: (bumped: { project_id: string; version: number }[]) => void; resync?: () => void } = {};
  const fake = { rows: [row] as object[], reads: 0, meanwhile: (): void => {} };
  /** Every project has the first row; the list of ids is of either dialect. */
  const all = async ({ values: [ids] }: { values: string[] }): Promise<object[]> => {
    fake.reads++;
    const [found] = fake.rows;
    await Promise.resolve();
    fake.meanwhile();
    return found ? [...(ids ?? "").matchAll(/\w+/g)].map(([id]) => ({ ...found, id })) : [];
  };
  const store = {
    dialect,
    read: { dialect, all },
    onPolicyChange: (listener: NonNullable<typeof listeners.bump>) => void (listeners.bump = listener),
    onNotice: (_: "resync", listener: () => void) => void (listeners.resync = listener),
  };
  const polls = new Ledger({ bound: 10_000, share: Number.POSITIVE_INFINITY });
  const heads = new Ledger({ bound: 40, share: 10, shareOf: "account" });
  const feed = new Feed(store as unknown as Store, polls, heads, new PageCache(polls, new LargeResponses(polls)));
  let version = 3;
  const bump = (project_id: string): void => listeners.bump?.([{ project_id, version: ++version }]);
  return { feed, fake, bump, resync: () => listeners.resync?.() };
}

describe("a head", () => {
  it("is read once and cached until its project changes, and hits and misses are counted", async () => {
    const { feed, fake, bump } = feedOn("sqlite");
    expect(await feed.head("w", "p")).toEqual(head);
    expect(await feed.head("w", "p")).toEqual(head);
    bump("another");
    expect(await feed.head("w", "p")).toEqual(head);
    fake.rows = [{ ...row, policy_version: 4, deleted_at: 5 }];
    bump("p");
    expect(await feed.head("w", "p")).toEqual({ ...head, version: 4, deleted: true });
    expect([fake.reads, feed.reads]).toEqual([2, { hits: 2, misses: 2 }]);
  });

  it("is never cached where other processes write", async () => {
    const { feed, fake } = feedOn("postgres");
    for (let i = 0; i < 3; i++) await feed.head("w", "p");
    expect([fake.reads, feed.reads]).toEqual([3, { hits: 0, misses: 3 }]);
  });

  for (const [what, change] of [
    ["a change", ({ bump }: ReturnType<typeof feedOn>) => bump("p")],
    ["a resync", ({ resync }: ReturnType<typeof feedOn>) => resync()],
  ] as const) {
    it(`is not cached when ${what} overtakes its reading, and is evicted by one`, async () => {
      const fixture = feedOn("sqlite");
      fixture.fake.meanwhile = () => change(fixture);
      await fixture.feed.head("w", "p");
      fixture.fake.meanwhile = () => {};
      await fixture.feed.head("w", "p");
      expect(fixture.fake.reads).toBe(2);
      change(fixture);
      await fixture.feed.head("w", "p");
      await fixture.feed.head("w", "p");
      expect(fixture.fake.reads).toBe(3);
    });
  }

  it("of another workspace or an unknown project is not found, cached or not", async () => {
    const { feed, fake } = feedOn("sqlite");
    const missing = { failure: "project_not_found" };
    for (let i = 0; i < 2; i++) await expect(feed.head("other", "p")).rejects.toMatchObject(missing);
    expect(feed.reads).toEqual({ hits: 1, misses: 1 });
    fake.rows = [];
    await expect(feed.head("w", "none")).rejects.toMatchObject(missing);
  });

  it("is cached within the account's share, its oldest evicted first and no other account's", async () => {
    const { feed, fake } = feedOn("sqlite");
    fake.rows = [{ ...row, workspace_id: "v", account_id: "neighbour" }];
    await feed.head("v", "q");
    for (let i = 0; i <= 10; i++) {
      // Two workspaces of one account.
      const workspace_id = i % 2 === 0 ? "w" : "x";
      fake.rows = [{ ...row, workspace_id, account_id: "account" }];
      await feed.head(workspace_id, `p${i}`);
    }
    const reads = fake.reads;
    for (const [workspace_id, known] of [
      ["v", "q"],
      ["x", "p1"],
      ["w", "p10"],
    ] as const)
      await feed.head(workspace_id, known);
    expect(fake.reads).toBe(reads);
    await feed.head("w", "p0");
    expect(fake.reads).toBe(reads + 1);
  });
});

describe("a subscription", () => {
  const HOUR = 3_600_000;

  it("is notified by changes of its own project and by a resync, and by nothing else", async () => {
    const { feed, bump, resync } = feedOn("sqlite");
    const subscription = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    const versions: (number | undefined)[] = [];
    const wait = (): void => void subscription.changed().then((news) => (versions.push(news?.version), wait()));
    wait();
    bump("another");
    await turns(5);
    expect(versions).toEqual([]);
    bump("p");
    await until(() => versions.length === 1);
    resync();
    await until(() => versions.length === 2);
    expect([subscription.ended, versions]).toEqual([false, [3, 3]]); // with the head, as it was read
    subscription.close();
    bump("p");
    await turns(5);
    expect(versions).toHaveLength(2);
  });

  it("is woken once for the changes that follow a wake closely, and for the last of them", async () => {
    const { feed, fake, bump } = feedOn("sqlite");
    const subscription = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    const versions: (number | undefined)[] = [];
    const wait = (): void => void subscription.changed().then((news) => (versions.push(news?.version), wait()));
    wait();
    const change = (version: number): void => {
      fake.rows = [{ ...row, policy_version: version }];
      bump("p");
    };
    change(4);
    await until(() => versions.length === 1);
    for (const version of [5, 6, 7]) change(version);
    await until(() => versions.length === 2);
    await turns(5);
    expect(versions).toEqual([4, 7]);
    subscription.close();
  });

  it("of a test key delays no change for live ones, however many there are", async () => {
    const { feed, fake, bump } = feedOn("sqlite");
    const TEST = cellOwner("w", "test");
    const subscribe = (owner: typeof OWNER, version: number) =>
      feed.subscribe(owner, at("p", version), HOUR, NEVER_DISCONNECTS)!;
    const change = (version: number): void => {
      fake.rows = [{ ...row, policy_version: version }];
      bump("p");
    };
    const ofTest = Array.from({ length: 300 }, () => subscribe(TEST, 3));
    change(4);
    await Promise.all(ofTest.map((poll) => poll.changed()));
    for (const poll of ofTest) poll.close();
    Array.from({ length: 300 }, () => subscribe(TEST, 4)); // they come back, and the next wake of test polls is deferred
    expect(feed.defers(TEST, { ...head, version: 5 }, 4)).toBe(true);
    expect(feed.defers(OWNER, { ...head, version: 5 }, 4)).toBe(false);
    const live = subscribe(OWNER, 4);
    change(5);
    await turns(5);
    let woken: number | undefined;
    void live.changed().then((news) => (woken = news?.version));
    await turns(2);
    expect(woken).toBe(5);
    feed.stop();
  });

  it("of a poll that knows more than the last wake brought waits for the next one too", async () => {
    const { feed, fake, bump } = feedOn("sqlite");
    const waiting = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    fake.rows = [{ ...row, policy_version: 4 }];
    bump("p");
    expect(await waiting.changed()).toMatchObject({ version: 4 });
    const deferred = (since: number): boolean => feed.defers(OWNER, { ...head, version: 6 }, since);
    expect([3, 4, 5, 6, 7].map(deferred)).toEqual([false, true, true, false, false]);
    feed.stop();
  });

  it("lets other requests run between the slices of a wake", async () => {
    const { feed, bump } = feedOn("sqlite");
    const woken: number[] = [];
    const all = Array.from({ length: 200 }, (_, i) => {
      const subscription = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
      void subscription.changed().then(() => woken.push(i));
      return subscription;
    });
    const slices = new Set<number>();
    bump("p");
    while (woken.length < all.length) {
      await turns();
      slices.add(woken.length);
    }
    expect(woken).toEqual(all.map((_, i) => i));
    expect(slices.size).toBeGreaterThan(5);
    feed.stop();
  });

  it("is woken by a look where the notice of another process was lost", async () => {
    const { feed, fake } = feedOn("postgres");
    const subscription = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    await feed.recheckHeads();
    expect(feed.noticesMissed).toBe(0);
    fake.rows = [{ ...row, policy_version: 4 }];
    await feed.recheckHeads();
    expect(await subscription.changed()).toEqual({ ...head, version: 4 });
    await feed.recheckHeads();
    expect(feed.noticesMissed).toBe(1);
    feed.stop();
  });

  it("is counted until it is closed, closes once, and does not affect others", async () => {
    const { feed, bump } = feedOn("sqlite");
    const [a, b] = [
      feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!,
      feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!,
    ];
    expect(feed.waiting).toBe(2);
    a.close();
    a.close();
    expect(feed.waiting).toBe(1);
    bump("p");
    await b.changed();
    b.close();
    const again = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    b.close(); // closed before: must not close another
    expect(feed.waiting).toBe(1);
    bump("p");
    await again.changed();
    again.close();
    expect(feed.waiting).toBe(0);
  });

  it("is rejected beyond ten thousand", () => {
    const { feed } = feedOn("sqlite");
    const all = Array.from({ length: 10_000 }, (_, i) =>
      feed.subscribe(OWNER, at(`p${i % 7}`), HOUR, NEVER_DISCONNECTS),
    );
    expect(all.includes(undefined)).toBe(false);
    expect(feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)).toBeUndefined();
    all[0]?.close();
    expect(feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)).toBeDefined();
    feed.stop();
  });

  it("of the largest owner ends early where another owner needs its place", async () => {
    const { feed } = feedOn("sqlite");
    const all = Array.from({ length: 10_000 }, () => feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!);
    const neighbour = feed.subscribe(cellOwner("v", "live"), at("q"), HOUR, NEVER_DISCONNECTS);
    await all[0]?.changed();
    expect([neighbour?.ended, all[0]?.ended, all[1]?.ended, feed.waiting]).toEqual([false, true, false, 10_000]);
    all[0]?.close();
    expect(feed.waiting).toBe(10_000);
    expect(feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)).toBeUndefined();
    feed.stop();
  });

  it("ends when the service stops, and new ones are rejected", () => {
    const { feed } = feedOn("sqlite");
    const subscription = feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)!;
    feed.stop();
    expect([subscription.ended, feed.subscribe(OWNER, at("p"), HOUR, NEVER_DISCONNECTS)]).toEqual([true, undefined]);
    subscription.close();
  });
});
