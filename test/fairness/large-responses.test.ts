// Large responses: an owner whose clients do not read waits and is refused; no other owner notices; a shared page
// counts once.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LargeResponses } from "../../src/fairness/large-responses.ts";
import type { Release } from "../../src/fairness/reservations.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner } from "../../src/fairness/owners.ts";

const [slow, other, third] = ["slow", "other", "third"].map((id) => cellOwner(id, "live"));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setUp(bound = 400) {
  const ledger = new Ledger({ bound, share: bound / 4 });
  return { ledger, responses: new LargeResponses(ledger) };
}

describe("building responses", () => {
  it("lets an owner build two at a time; the third starts when one has ended", async () => {
    const { responses } = setUp();
    const [first] = [responses.beginBuilding(slow!), responses.beginBuilding(slow!)] as Release[];
    const third = responses.beginBuilding(slow!);
    expect(third).toBeInstanceOf(Promise);
    expect(responses.beginBuilding(other!)).not.toBeInstanceOf(Promise);
    first?.();
    first?.(); // counts once
    expect(await third).toBeTypeOf("function");
    expect(responses.beginBuilding(slow!)).toBeInstanceOf(Promise);
  });

  it("refuses an owner whose clients leave its share unread for two seconds, and lets it continue when they read", async () => {
    const { responses, ledger } = setUp();
    const taken = responses.charge(slow!, {}, 100, () => {});
    const refused = Promise.resolve(responses.beginBuilding(slow!)).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await refused).toMatchObject({ failure: "share_full", status: 503 });
    expect(ledger.refused.get("cell")).toBe(1);
    const waiting = responses.beginBuilding(slow!);
    taken();
    expect(await waiting).toBeTypeOf("function");
    expect(ledger.used).toBe(0);
  });
});

describe("work that counts as building a large response", () => {
  it("is done two at a time, the next one when one has ended, also with an error", async () => {
    const { responses } = setUp();
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let started = 0;
    const work = (until: Promise<void>) => () => {
      started++;
      return until;
    };
    const failing = responses.whileBuilding(slow!, work(first.promise)).catch((error: unknown) => String(error));
    const running = responses.whileBuilding(slow!, work(second.promise));
    const waiting = responses.whileBuilding(slow!, work(second.promise));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(started).toBe(2);
    first.reject(new Error("no"));
    expect(await failing).toBe("Error: no");
    second.resolve();
    await Promise.all([running, waiting]);
    expect(started).toBe(3);
  });
});

describe("unsent bytes", () => {
  it("are charged once for what many clients take, until the last of them has taken it", () => {
    const { responses, ledger } = setUp();
    const page = {};
    const releases = [1, 2, 3].map(() => responses.charge(slow!, page, 50, () => {}));
    expect(ledger.used).toBe(50);
    releases[0]?.();
    releases[0]?.();
    releases[1]?.();
    expect(ledger.used).toBe(50);
    releases[2]?.();
    expect(ledger.used).toBe(0);
  });

  it("of the largest owner are cut at the bound, oldest first, to make room for a smaller owner's", () => {
    const { responses, ledger } = setUp(100);
    const cut: string[] = [];
    for (const name of ["s1", "s2", "s3"]) responses.charge(slow!, {}, 25, () => cut.push(name));
    responses.charge(other!, {}, 25, () => cut.push("o1"));
    responses.charge(third!, {}, 20, () => cut.push("t1"));
    expect(cut).toEqual(["s1"]);
    expect([ledger.used, ledger.usedBy(slow!), ledger.usedBy(third!)]).toEqual([95, 50, 20]);
  });

  it("that were cut release nothing of what is charged for the same page later", () => {
    const { responses, ledger } = setUp(100);
    const page = {};
    const taken = responses.charge(slow!, page, 90, () => {});
    responses.charge(other!, {}, 20, () => {}); // cuts the page
    responses.charge(slow!, page, 50, () => {});
    taken();
    expect(ledger.usedBy(slow!)).toBe(50);
  });
});
