// A JSON text that its operation parses itself, in pieces where it is long.

/**
 * An array in JSON that can be cut into pieces: the offsets in bytes of its brackets, and of commas between its items.
 */
export type ArrayCuts = {
  readonly start: number;
  readonly commas: readonly number[];
  /** Undefined where the array has no end: then the JSON is not valid. */
  readonly end: number | undefined;
};

/** Runs a part of the work in a turn of the event loop that belongs to the request's owner: about `ms` of it. */
export type RunPiece = <T>(work: (ms: number) => T) => Promise<T>;

/** `pieces` is absent if the body is short enough to be parsed at once. */
export type RawBody = { bytes: Buffer; pieces?: { cuts: ArrayCuts; runPiece: RunPiece } | undefined };
