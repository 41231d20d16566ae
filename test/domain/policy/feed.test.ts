// The feed's memory by itself: which heads it may remember, and who waits, on a store that answers what the test says.
import { describe, expect, it } from "vitest";
import { Feed } from "../../../src/domain/policy/feed.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import type { Store } from "../../../src/store/store.ts";

const row = { workspace_id: "w", policy_version: 3, min_delta_version: 1, default_rate_limits: "[]", deleted_at: null };
const head = {
  project_id: "p",
  workspace_id: "w",
  version: 3,
  min_delta_version: 1,
  default_rate_limits: "[]",
  deleted: false,
};

function feedOn(dialect: "sqlite" | "postgres") {
  const heard: { bump?: (bumped: { project_id: string; version: number }[]) => void; resync?: () => void } = {};
  const answers = { rows: [row] as object[], reads: 0, meanwhile: (): void => {} };
  const first = async (): Promise<object | undefined> => {
    answers.reads++;
    const [found] = answers.rows;
    await Promise.resolve();
    answers.meanwhile();
    return found;
  };
  const store = {
    dialect,
    read: { dialect, first },
    onPolicyChange: (listener: NonNullable<typeof heard.bump>) => void (heard.bump = listener),
    onNotice: (_: "resync", listener: () => void) => void (heard.resync = listener),
  };
  const feed = new Feed(store as unknown as Store);
  const bump = (project_id: string): void => heard.bump?.([{ project_id, version: 4 }]);
  return { feed, answers, bump, resync: () => heard.resync?.() };
}

describe("a head", () => {
  it("is read once and remembered until its project moves, and every look is counted", async () => {
    const { feed, answers, bump } = feedOn("sqlite");
    expect(await feed.head("w", "p")).toEqual(head);
    expect(feed.head("w", "p")).toEqual(head); // no promise: a poll without news costs none
    bump("another");
    expect(feed.head("w", "p")).toEqual(head);
    answers.rows = [{ ...row, policy_version: 4, deleted_at: 5 }];
    bump("p");
    expect(await feed.head("w", "p")).toEqual({ ...head, version: 4, deleted: true });
    expect([answers.reads, feed.reads]).toEqual([2, { hits: 2, misses: 2 }]);
  });

  it("is never remembered where other processes write", async () => {
    const { feed, answers } = feedOn("postgres");
    for (let i = 0; i < 3; i++) await feed.head("w", "p");
    expect([answers.reads, feed.reads]).toEqual([3, { hits: 0, misses: 3 }]);
  });

  for (const [what, happen] of [
    ["a change", ({ bump }: ReturnType<typeof feedOn>) => bump("p")],
    ["a gap in what was heard", ({ resync }: ReturnType<typeof feedOn>) => resync()],
  ] as const) {
    it(`is not remembered when ${what} overtook its reading, and is forgotten after one`, async () => {
      const it = feedOn("sqlite");
      it.answers.meanwhile = () => happen(it);
      await it.feed.head("w", "p");
      it.answers.meanwhile = () => {};
      await it.feed.head("w", "p");
      expect(it.answers.reads).toBe(2);
      happen(it);
      await it.feed.head("w", "p");
      await it.feed.head("w", "p");
      expect(it.answers.reads).toBe(3);
    });
  }

  it("of another workspace, or of no project, is not there, remembered or not", async () => {
    const { feed, answers } = feedOn("sqlite");
    const missing = { failure: "project_not_found" };
    await expect(Promise.resolve(feed.head("other", "p"))).rejects.toMatchObject(missing);
    expect(() => feed.head("other", "p")).toThrow(expect.objectContaining(missing));
    answers.rows = [];
    await expect(Promise.resolve(feed.head("w", "none"))).rejects.toMatchObject(missing);
  });

  it("is remembered for ten thousand projects, the oldest forgotten first", async () => {
    const { feed, answers } = feedOn("sqlite");
    for (let i = 0; i <= 10_000; i++) await feed.head("w", `p${i}`);
    const reads = answers.reads;
    for (const known of ["p1", "p10000"]) await feed.head("w", known);
    expect(answers.reads).toBe(reads);
    await feed.head("w", "p0");
    expect(answers.reads).toBe(reads + 1);
  });
});

describe("a subscription", () => {
  const HOUR = 3_600_000;

  it("is woken by its own project, and by a gap in what was heard, and by nothing else", async () => {
    const { feed, bump, resync } = feedOn("sqlite");
    const subscription = feed.subscribe("p", HOUR, NEVER_DISCONNECTS)!;
    let wakes = 0;
    const wait = (): void => void subscription.changed().then(() => (wakes++, wait()));
    wait();
    const seen = async (): Promise<number> => {
      await new Promise((resolve) => setImmediate(resolve));
      return wakes;
    };
    bump("another");
    expect(await seen()).toBe(0);
    bump("p");
    expect(await seen()).toBe(1);
    resync();
    expect(await seen()).toBe(2);
    expect(subscription.ended).toBe(false);
    subscription.close();
    bump("p");
    expect(await seen()).toBe(2);
  });

  it("is counted from joining to leaving, leaves once, and leaves nobody else unheard", async () => {
    const { feed, bump } = feedOn("sqlite");
    const [a, b] = [feed.subscribe("p", HOUR, NEVER_DISCONNECTS)!, feed.subscribe("p", HOUR, NEVER_DISCONNECTS)!];
    expect(feed.waiting).toBe(2);
    a.close();
    a.close();
    expect(feed.waiting).toBe(1);
    bump("p");
    await b.changed();
    b.close();
    const again = feed.subscribe("p", HOUR, NEVER_DISCONNECTS)!;
    b.close(); // long gone: no other's place is taken
    expect(feed.waiting).toBe(1);
    bump("p");
    await again.changed();
    again.close();
    expect(feed.waiting).toBe(0);
  });

  it("is one of ten thousand at most", () => {
    const { feed } = feedOn("sqlite");
    const all = Array.from({ length: 10_000 }, (_, i) => feed.subscribe(`p${i % 7}`, HOUR, NEVER_DISCONNECTS));
    expect(all.includes(undefined)).toBe(false);
    expect(feed.subscribe("p", HOUR, NEVER_DISCONNECTS)).toBeUndefined();
    all[0]?.close();
    expect(feed.subscribe("p", HOUR, NEVER_DISCONNECTS)).toBeDefined();
    feed.stop();
  });

  it("is answered when the service stops, and nobody joins any more", () => {
    const { feed } = feedOn("sqlite");
    const subscription = feed.subscribe("p", HOUR, NEVER_DISCONNECTS)!;
    feed.stop();
    expect([subscription.ended, feed.subscribe("p", HOUR, NEVER_DISCONNECTS)]).toEqual([true, undefined]);
    subscription.close();
  });
});
