// Which of several chains gets the next slice of a thread.
import { afterEach, expect, it, vi } from "vitest";
import { ChainVerifications } from "../../../src/store/audit/chain-verifications.ts";
import type { Task } from "../../../src/store/threads/tasks.ts";
import { threads } from "../../../src/store/threads/pool.ts";

type Slice = { workspace_id: string; end: () => void };

afterEach(() => void vi.restoreAllMocks());

/** Slices that a thread was given and has not finished, oldest first. None of them completes a chain. */
function fakeThreads(): Slice[] {
  const slices: Slice[] = [];
  vi.spyOn(threads, "runFor").mockImplementation(async (_signal, task: Task) => {
    const { workspace_id, options } = task as Extract<Task, { op: "verify" }>;
    await new Promise<void>((end) => void slices.push({ workspace_id, end }));
    return { ...options.from, check: null };
  });
  return slices;
}

it("gives the next slice to the account that has used least time, whatever number of chains others start", async () => {
  const slices = fakeThreads();
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const verifications = new ChainVerifications({ kind: "sqlite", path: "" } as never, new AbortController().signal);
  const start = (workspace_id: string, account: string): void =>
    void verifications.check(workspace_id, [], { account });
  for (let i = 1; i <= 5; i++) start(`large-${i}`, "large");
  start("small", "small");
  const next = async (): Promise<string | undefined> => {
    now += 250;
    slices.shift()?.end();
    const given = slices.length;
    await expect.poll(() => slices.length).toBeGreaterThan(given);
    return slices.at(-1)?.workspace_id;
  };
  await expect.poll(() => slices.map(({ workspace_id }) => workspace_id)).toEqual(["large-1", "large-2"]);
  expect(await next()).toBe("small");
  expect(await next()).toBe("large-3");
  expect(await next()).toBe("large-4"); // a chain gives its thread back after each slice
  expect(await next()).toBe("small");
});
