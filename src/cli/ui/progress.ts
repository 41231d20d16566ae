// Progress on stderr: only on a terminal, and only for operations that take over a second.
import type { Step } from "../../store/progress.ts";
import { MIB } from "../../kernel/sizes.ts";

const QUIET_MS = 1_000;
const WIDTH = 24;
const BYTE_STEPS = new Set(["copy", "checksum", "dump"]);

/** Receives the steps that an operation reports. */
export type OnProgress = (step: unknown) => void;
type ProgressBar = { update(done: number): void; end(): void };

/** `started`: when the whole operation began, if this bar shows one step of it. */
export function createProgressBar(total: number, unit: string, started = Date.now()): ProgressBar {
  let shown = false;
  if (!process.stderr.isTTY) return { update: () => {}, end: () => {} };
  return {
    update(done) {
      if (Date.now() - started < QUIET_MS) return;
      shown = true;
      const full = Math.round((done / Math.max(total, 1)) * WIDTH);
      process.stderr.write(`\r${"#".repeat(full).padEnd(WIDTH, ".")}  ${done} of ${total} ${unit} `);
    },
    end() {
      if (shown) process.stderr.write("\r\u001b[K");
    },
  };
}

/** Shows a bar for each step while `work` runs, and clears it before anything else is printed. */
export async function withProgress<T>(work: (onProgress: OnProgress) => Promise<T>): Promise<T> {
  const started = Date.now();
  let bar: ProgressBar | undefined;
  let current = "";
  const onProgress = (reported: unknown): void => {
    const { step, done, total } = reported as Step;
    const scale = BYTE_STEPS.has(step) && total > MIB ? MIB : 1;
    const unit = scale === MIB ? `MiB, ${step}` : step;
    if (current !== `${unit} ${total}`) {
      bar?.end();
      bar = createProgressBar(Math.ceil(total / scale), unit, started);
      current = `${unit} ${total}`;
    }
    bar?.update(Math.floor(done / scale));
  };
  try {
    return await work(onProgress);
  } finally {
    bar?.end();
  }
}

/** A line with a spinner, rewritten until `end`. */
export function createSpinner(): { update(text: string): void; end(): void } {
  if (!process.stderr.isTTY) return { update: () => {}, end: () => {} };
  const frames = ["-", "\\", "|", "/"];
  let frame = 0;
  let text = "";
  const draw = (): void => {
    if (text) process.stderr.write(`\r\u001b[K${frames[frame++ % frames.length]} ${text}`);
  };
  const timer = setInterval(draw, 120);
  timer.unref();
  return {
    update(next) {
      text = next;
      draw();
    },
    end() {
      clearInterval(timer);
      process.stderr.write("\r\u001b[K");
    },
  };
}
