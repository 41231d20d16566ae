// How often a test repeats a race that is not certain to happen: more often at night.
export const ROUNDS = Number(process.env.KEYRACK_TEST_ROUNDS ?? 5);

export const IS_NIGHT = ROUNDS >= 50;

/** Runs of a property that are cheap one by one: all at night, a fifth on every change. */
export const propertyRuns = (all: number): number => (IS_NIGHT ? all : all / 5);
