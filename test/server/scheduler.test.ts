// The scheduler: which jobs run, when, on which processes, and what a failing one leaves behind.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { jobs, type Job } from "../../src/server/jobs.ts";
import { JobRunner } from "../../src/server/scheduler.ts";
import type { Services } from "../../src/domain/core/context.ts";

const EVERY_MS = 10_000;

function world() {
  const state = { leads: true, errors: [] as unknown[] };
  const services = {
    clock: { now: () => Date.now() },
    store: { dialect: "postgres", tryBecomeLeader: async () => state.leads },
    worker: { leads: false, failing: new Set<string>(), searchPasses: new Map() },
    log: { info: () => {}, error: (_event: string, fields: unknown) => void state.errors.push(fields) },
  } as unknown as Services;
  return { state, services };
}

const job = (run: Job["run"], more: Partial<Job> = {}): Job => ({
  name: "mail",
  everyMs: EVERY_MS,
  runsOn: "leader",
  run,
  ...more,
});

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

describe("the WAL checkpoint", () => {
  it("is due within any pause of 20 s: a -wal that has grown is made smaller after 5 s without a commit", () => {
    expect(jobs.find(({ name }) => name === "WAL checkpoint")?.everyMs).toBeLessThanOrEqual(15_000);
  });
});

describe("a job", () => {
  it("runs once in each interval, and not before the first one is over", async () => {
    const { services } = world();
    const run = vi.fn(async () => {});
    const runner = new JobRunner(services, [job(run)]);
    await vi.advanceTimersByTimeAsync(EVERY_MS - 1_000);
    expect(run).toHaveBeenCalledTimes(0);
    await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
    expect(run).toHaveBeenCalledTimes(3);
    await runner.stop();
    await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
    expect(run).toHaveBeenCalledTimes(3);
  });

  it("of the leader does not run on other processes; one of every process does", async () => {
    const { services, state } = world();
    state.leads = false;
    const [leader, own] = [vi.fn(async () => {}), vi.fn(async () => {})];
    const table = [job(leader), job(own, { name: "rate counters", runsOn: "every process" })];
    const runner = new JobRunner(services, table);
    await vi.advanceTimersByTimeAsync(EVERY_MS + 1_000);
    expect([leader.mock.calls.length, own.mock.calls.length]).toEqual([0, 1]);
    state.leads = true;
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect([leader.mock.calls.length > 0, services.worker.leads]).toEqual([true, true]);
    await runner.stop();
  });

  it("of the leader does not run where it is not known who leads, and the time since then counts", async () => {
    const { services } = world();
    const run = vi.fn(async () => {});
    const runner = new JobRunner(services, [job(run, { atStart: true })]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(run).toHaveBeenCalledTimes(1);
    const seenAt = services.worker.leaderSeenAt;
    services.store.tryBecomeLeader = () => Promise.reject(new Error("not connected"));
    await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
    expect([run.mock.calls.length, services.worker.leads]).toEqual([1, false]);
    expect(services.worker.leaderSeenAt).toBe(seenAt);
    await runner.stop();
  });

  it("that fails is logged, counts as failing, and runs again until it succeeds", async () => {
    const { services, state } = world();
    const run = vi.fn(async () => {}).mockRejectedValueOnce(new Error("no disk"));
    const runner = new JobRunner(services, [job(run)]);
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect(state.errors).toEqual([
      { job: "mail", error: "Error: no disk", stack: expect.stringContaining("scheduler.test.ts") },
    ]);
    expect([...services.worker.failing]).toEqual(["mail"]);
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect([...services.worker.failing]).toEqual([]);
    await runner.stop();
  });

  it("that is woken while it runs runs once more afterwards, however often it was woken", async () => {
    const { services } = world();
    const gate = Promise.withResolvers<void>();
    const run = vi.fn(() => gate.promise);
    const runner = new JobRunner(services, [job(run)]);
    for (let i = 0; i < 3; i++) runner.wake("mail");
    expect(run).toHaveBeenCalledTimes(1);
    gate.resolve();
    await runner.idle();
    expect(run).toHaveBeenCalledTimes(2);
    await runner.stop();
    runner.wake("mail");
    expect(run).toHaveBeenCalledTimes(2);
  });
});

it("a stop waits for the jobs that run, but not for one that hangs", async () => {
  const { services } = world();
  const [finishes, hangs] = [Promise.withResolvers<void>(), new Promise<void>(() => {})];
  const runners = [finishes.promise, hangs].map((work) => new JobRunner(services, [job(() => work)]));
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  const now = Date.now();
  const stopped = Promise.all(runners.map((runner) => runner.stop().then(() => Date.now() - now)));
  await vi.advanceTimersByTimeAsync(1_000);
  finishes.resolve();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await stopped).toEqual([1_000, 2_000]);
});

it("every job has a name of its own", () => {
  const names = jobs.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
