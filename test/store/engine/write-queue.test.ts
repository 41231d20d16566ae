// The queue of the group commit: what one owner has in it does not refuse or delay another's.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { record } from "../../../src/domain/core/record.ts";
import { cellOwner, type Owner } from "../../../src/fairness/owners.ts";
import { WriteQueue } from "../../../src/store/engine/write-queue.ts";

const [flood, quiet] = [cellOwner("flood", "live"), cellOwner("quiet", "live")];

function queueWith() {
  let now = 5_000;
  const queue = new WriteQueue(() => now);
  const pass = (ms: number): void => void (now += ms);
  const refused: string[] = [];
  const push = (owner: Owner, count: number, weight?: number): void => {
    for (let i = 0; i < count; i++) {
      const reject = (error: unknown): unknown => refused.push(`${owner.id} ${(error as { failure: string }).failure}`);
      const job = { chains: [], owner, weight, work: () => Promise.reject(new Error()) };
      queue.push({ job, resolve: () => {}, reject });
    }
  };
  return { queue, refused, push, pass };
}

describe("the queue of writes", () => {
  it("refuses an owner above its share, and no other", () => {
    const { queue, refused, push } = queueWith();
    push(flood, 2_001);
    push(quiet, 1);
    expect(refused).toEqual(["flood/live share_full"]);
    expect(queue.ledger.refused.get("cell")).toBe(1);
    queue.takeGroup(200);
    push(flood, 1);
    expect(refused.length).toBe(1);
  });

  it("gives an owner alone the whole group, and a part of it beside another", () => {
    const { queue, push, pass } = queueWith();
    const owners = (): string => {
      const counts = Map.groupBy(queue.takeGroup(200), ({ job }) => job.owner?.id);
      return [...counts].map(([id, jobs]) => `${id} ${jobs.length}`).join();
    };
    push(flood, 300);
    expect(owners()).toBe("flood/live 200");
    push(quiet, 2);
    expect([owners(), owners()]).toEqual(["flood/live 16,quiet/live 2", "flood/live 16"]);
    pass(1_000);
    expect(owners()).toBe("flood/live 68");
    push(flood, 300);
    push(quiet, 2);
    expect(queue.takeAll().length).toBe(302);
  });

  it("gives all cells of an account together the part of one owner", () => {
    const { queue, push } = queueWith();
    for (let i = 0; i < 13; i++) push(cellOwner(`w${i}`, "live", "account"), 20);
    push(quiet, 2);
    const group = queue.takeGroup(200);
    expect([group.length, group.filter(({ job }) => job.owner === quiet).length]).toEqual([18, 2]);
  });

  it("holds one large job of an owner in a group, and the small ones of others", () => {
    const { queue, push } = queueWith();
    push(flood, 20, 500);
    const sizes = (): string =>
      queue
        .takeGroup(200)
        .map(({ job }) => `${job.owner?.id} ${job.weight ?? 1}`)
        .join();
    expect(sizes()).toBe("flood/live 500");
    push(quiet, 2);
    expect(sizes()).toBe("flood/live 500,quiet/live 1,quiet/live 1");
    expect(queue.takeAll()).toHaveLength(18);
  });

  it("at the bound evicts a job of the owner that has most", () => {
    const { queue, refused, push } = queueWith();
    for (let i = 0; i < 5; i++) push(cellOwner(`w${i}`, "live"), 2_000);
    push(quiet, 1);
    expect([refused.length, queue.length, queue.ledger.usedBy(quiet)]).toEqual([1, 10_000, 1]);
    expect(refused[0]).toMatch(/^w\d\/live share_full$/);
  });
});

for (const backend of backends) {
  describe(`group commit on ${backend}`, () => {
    it("has a quiet owner's job in its next group, however many another owner has queued", async () => {
      await using fixture = await testServices(backend);
      const order: string[] = [];
      const write = async (owner: Owner | undefined, name: string): Promise<void> => {
        await record(fixture.services, async () => order.push(name), owner && { owner });
      };
      const flooding = Array.from({ length: 500 }, (_, i) => write(flood, `flood ${i}`));
      await Promise.all([...flooding, write(quiet, "quiet"), write(undefined, "service")]);
      expect(order.length).toBe(502);
      expect(Math.max(order.indexOf("quiet"), order.indexOf("service"))).toBeLessThan(200);
      const ofFlood = order.filter((name) => name.startsWith("flood"));
      expect(ofFlood).toEqual(flooding.map((_, i) => `flood ${i}`));
      expect(fixture.services.store.waitingWrites.used).toBe(0);
    });
  });
}
