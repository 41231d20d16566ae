// How often a test repeats a race that is not certain to happen: more often at night.
export const ROUNDS = Number(process.env.KEYRACK_TEST_ROUNDS ?? 10);

export const IS_NIGHT = ROUNDS >= 50;
