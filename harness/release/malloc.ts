// The environment of glibc's allocator where something of ours starts Keyrack: the unit, the container image, bin/keyrack.

/**
 * Otherwise each thread has an arena of its own, and keeps there what it has freed, such as the memory of a password's
 * hash.
 */
export const MALLOC_ENV = { MALLOC_ARENA_MAX: "2", MALLOC_MMAP_THRESHOLD_: "1048576" } as const;
