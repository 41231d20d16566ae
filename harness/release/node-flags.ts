// How every way of starting Keyrack starts Node; bin/keyrack, a shell script, repeats it.

/**
 * A flood of requests must not cost memory that is never needed again. V8 lets its young generation grow to three times
 * 64 MB on a large host, and keeps it: sixteen bound it to 48 MB. While much is allocated it lets garbage grow to
 * several times what is in use before it collects: here to half of that. And objects of a request must not be allocated
 * in the old generation because many of a warm-up survived: docs/design/0020-short-lived-items.md.
 */
export const NODE_FLAGS = [
  "--max-semi-space-size=16",
  "--heap-growing-percent=50",
  "--no-allocation-site-pretenuring",
] as const;
