// Which of several idle threads gets the next task, and when the others end.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { IdleWorkers } from "../../../src/store/threads/idle-workers.ts";

const WAITING = "require('node:worker_threads').parentPort.on('message', () => {})";
const started: Worker[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.terminate()));
});

function threads(keptMs?: number): IdleWorkers {
  return new IdleWorkers(
    () => {
      const worker = new Worker(WAITING, { eval: true });
      started.push(worker);
      return worker;
    },
    { keptMs },
  );
}

describe("idle threads", () => {
  it("are taken by their latest work, so that consecutive tasks share one", async () => {
    const pool = threads();
    const [first, second] = [pool.take(), pool.take()];
    await pool.keep(first);
    await pool.keep(second);
    for (let task = 0; task < 3; task++) {
      const taken = pool.take();
      expect(taken === second).toBe(true);
      await pool.keep(taken);
    }
    expect(pool.running).toBe(2);
  });

  it("end when nothing has needed them for a while", async () => {
    const pool = threads(1);
    const worker = pool.take();
    const ended = once(worker, "exit");
    await pool.keep(worker);
    await ended;
    expect(pool.running).toBe(0);
  });
});
