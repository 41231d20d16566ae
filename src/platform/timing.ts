// Waiting for work within a time, and limiting how often something is done.

/** Resolves with the work's result, or with undefined if it takes longer. Keeps no process running. */
export async function atMost<T>(ms: number, work: Promise<T> | undefined): Promise<T | undefined> {
  const timeUp = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeUp.resolve(undefined), ms).unref();
  return Promise.race([work, timeUp.promise]).finally(() => clearTimeout(timer));
}

/** Returns a function that calls `act` at most once per `ms`, and ignores the calls between. */
export function atMostEvery<T>(ms: number, act: (value: T) => void, now = () => performance.now()): (value: T) => void {
  let last = -Infinity;
  return (value) => {
    if (now() - last < ms) return;
    last = now();
    act(value);
  };
}
