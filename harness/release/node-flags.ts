// How every way of starting Keyrack starts Node; bin/keyrack, a shell script, repeats it.

/**
 * V8 lets its young generation grow to three times 64 MB on a large host, and keeps it: a flood of requests then costs
 * memory that is never needed again. Sixteen bound it to 48 MB.
 */
export const NODE_FLAGS = ["--max-semi-space-size=16"] as const;
