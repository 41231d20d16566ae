// How every way of starting Keyrack starts Node; bin/keyrack, a shell script, repeats it.

/**
 * A flood of requests must not cost memory that is never needed again. V8 lets its young generation grow to three times
 * 64 MB on a large host, and keeps it: sixteen bound it to 48 MB. Other flags of V8 are set at run time
 * (src/platform/heap.ts).
 */
export const NODE_FLAGS = ["--max-semi-space-size=16"] as const;
