// Preloaded into the server: reports what holds its event loop for more than 50 ms, with the stack of that moment. The
// time in which its thread is ready to run, but other processes have the cores, does not count.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import type { Session } from "node:inspector";
import { isMainThread, Worker, workerData } from "node:worker_threads";

const FILE_ENV = "KEYRACK_PROVE_HOLDS";
const HELD_MS = 50;
const LOOK_MS = 5;
const FRAMES = 12;

/**
 * What held the event loop, innermost function first, and for how long until it was noticed: asking for the stack takes
 * longer. `cpuMs`: without waiting, as for the disk.
 */
export type Hold = { ms: number; cpuMs: number; stack: string };

/** Where a server reports its holds. */
export class HoldFile {
  readonly #path: string;
  #linesRead = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** For the server's environment. */
  get env(): Record<string, string> {
    return { [FILE_ENV]: this.#path, NODE_OPTIONS: `--import=${import.meta.filename}` };
  }

  /** Those that were reported since the last call. */
  read(): Hold[] {
    if (!existsSync(this.#path)) return [];
    const lines = readFileSync(this.#path, "utf8").split("\n").filter(Boolean).slice(this.#linesRead);
    this.#linesRead += lines.length;
    return lines.map((line) => JSON.parse(line) as Hold);
  }
}

type Watched = { turns: Int32Array<SharedArrayBuffer>; file: string };

async function openSession(): Promise<Session> {
  const { Session } = await import("node:inspector");
  const session = new Session();
  session.connectToMainThread();
  return session;
}

function watch({ turns, file }: Watched): void {
  let session: Session | undefined; // only when needed: it counts as memory of the server
  const clock = (): { own: number; cpu: number } => {
    const [cpuNs, readyNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return { own: performance.now() - Number(readyNs) / 1e6, cpu: Number(cpuNs) / 1e6 };
  };
  let [turn, since, isReported] = [-1, clock(), false];
  let held = { ms: 0, cpuMs: 0 };
  const report = async (): Promise<void> => {
    if (!session) {
      session = await openSession();
      session.on("Debugger.paused", ({ params }) => {
        const names = params.callFrames.map(({ functionName }) => functionName || "(anonymous)");
        const hold: Hold = { ...held, stack: names.slice(0, FRAMES).join(" < ") };
        appendFileSync(file, `${JSON.stringify(hold)}\n`);
        session?.post("Debugger.resume");
        session?.post("Debugger.disable");
      });
    }
    session.post("Debugger.enable");
    session.post("Debugger.pause");
  };
  setInterval(() => {
    const [now, at] = [Atomics.load(turns, 0), clock()];
    if (now !== turn) [turn, since, isReported] = [now, at, false];
    if (isReported || at.own - since.own < HELD_MS) return;
    isReported = true;
    held = { ms: Math.round(at.own - since.own), cpuMs: Math.round(at.cpu - since.cpu) };
    void report();
  }, LOOK_MS);
}

const file = process.env[FILE_ENV];
if (isMainThread && file && process.argv.includes("serve")) {
  const turns = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(turns, 0, 1), LOOK_MS).unref();
  const data = { watched: { turns, file } satisfies Watched };
  new Worker(import.meta.filename, { workerData: data, execArgv: [], env: {} }).unref();
} else if (!isMainThread && (workerData as { watched?: Watched } | null)?.watched) {
  watch((workerData as { watched: Watched }).watched);
}
