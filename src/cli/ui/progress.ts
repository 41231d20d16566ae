// A progress bar on stderr: only on a terminal, and only for what takes over a second.
const PATIENCE_MS = 1_000;
const WIDTH = 24;

export type Progress = { at(done: number): void; end(): void };

/** `started`: when the whole operation began, where this bar is for one step of it. */
export function createProgress(total: number, what: string, started = Date.now()): Progress {
  let shown = false;
  if (!process.stderr.isTTY) return { at: () => {}, end: () => {} };
  return {
    at(done) {
      if (Date.now() - started < PATIENCE_MS) return;
      shown = true;
      const full = Math.round((done / Math.max(total, 1)) * WIDTH);
      process.stderr.write(`\r${"#".repeat(full).padEnd(WIDTH, ".")}  ${done} of ${total} ${what} `);
    },
    end() {
      if (shown) process.stderr.write("\r\u001b[K");
    },
  };
}

/** A line that is rewritten until `end`. */
export function createSpinner(): { say(text: string): void; end(): void } {
  if (!process.stderr.isTTY) return { say: () => {}, end: () => {} };
  const frames = ["-", "\\", "|", "/"];
  let frame = 0;
  let text = "";
  const draw = (): void => {
    if (text) process.stderr.write(`\r\u001b[K${frames[frame++ % frames.length]} ${text}`);
  };
  const timer = setInterval(draw, 120);
  timer.unref();
  return {
    say(next) {
      text = next;
      draw();
    },
    end() {
      clearInterval(timer);
      process.stderr.write("\r\u001b[K");
    },
  };
}
