// How V8 manages the memory of a server.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Not while the first requests come. */
const COLLECTED_AFTER_MS = 5_000;

/**
 * Call when the server is ready. With these flags on the command line V8 would reject the code cache of Node's own
 * modules in every thread: a fifth of the CPU time of a start. bench: start/binary-cpu
 */
export function tuneHeap(): void {
  setTimeout(collectGarbage, COLLECTED_AFTER_MS).unref();
  // While much is allocated, V8 lets garbage grow to several times what is in use before it collects: here to half.
  setFlagsFromString("--heap-growing-percent=50");
  // Objects of a request must not be allocated in the old generation because many of a warm-up survived:
  // docs/design/0020-short-lived-items.md.
  setFlagsFromString("--no-allocation-site-pretenuring");
}

/**
 * V8 gives an idle process's memory back only after a first major collection, which a server without requests would not
 * have for hours. bench: start/binary-anonymous
 */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");
  collect();
}
