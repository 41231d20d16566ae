// How V8 manages the memory of a server.
import { performance } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const IDLE_CHECK_MS = 5_000;
/** The share of that time in which an idle process's event loop is busy at most. */
const IDLE_SHARE = 0.05;

/**
 * Call when the server is ready. With these flags V8 rejects the code cache of Node's own modules: on the command line
 * they would slow every start, here only threads that start later. bench: start/binary-cpu
 */
export function tuneHeap(): void {
  // While much is allocated, V8 lets garbage grow to several times what is in use before it collects: here to half.
  setFlagsFromString("--heap-growing-percent=50");
  // Objects of a request must not be allocated in the old generation because many of a warm-up survived:
  // docs/design/0020-short-lived-items.md.
  setFlagsFromString("--no-allocation-site-pretenuring");
  collectOnceIdle();
}

/**
 * V8 gives an idle process's memory back only after a first major collection, which a server without requests would not
 * have for hours. It holds up every request, so it waits for a moment without any. bench: start/binary-anonymous
 */
function collectOnceIdle(): void {
  let before = performance.eventLoopUtilization();
  const timer = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(before);
    before = performance.eventLoopUtilization();
    if (utilization > IDLE_SHARE) return;
    clearInterval(timer);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    setFlagsFromString("--no-expose-gc");
    collect();
  }, IDLE_CHECK_MS).unref();
}
