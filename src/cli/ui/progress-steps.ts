// Progress of an operation that tells its steps: a bar for each on a terminal, nothing elsewhere.
import type { Step } from "../../store/progress.ts";
import { createProgress, type Progress } from "./progress.ts";

const MIB = 2 ** 20;
const BYTES = new Set(["copy", "checksum", "dump"]);

/** `tell` takes what operations report; `end` clears the line. */
export function createSteps(): { tell: (step: unknown) => void; end: () => void } {
  let bar: Progress | undefined;
  let shown = "";
  const started = Date.now();
  return {
    tell: (told) => {
      const { step, done, total } = told as Step;
      const unit = BYTES.has(step) && total > MIB ? MIB : 1;
      const what = unit === MIB ? `MiB, ${step}` : step;
      if (shown !== `${what} ${total}`) {
        bar?.end();
        bar = createProgress(Math.ceil(total / unit), what, started);
        shown = `${what} ${total}`;
      }
      bar?.at(Math.floor(done / unit));
    },
    end: () => bar?.end(),
  };
}
