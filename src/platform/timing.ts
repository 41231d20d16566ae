// Waiting for a time, and for work within a time.

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves with the work's result, or with undefined if it takes longer. Keeps no process running. */
export async function atMost<T>(ms: number, work: Promise<T> | undefined): Promise<T | undefined> {
  const timeUp = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeUp.resolve(undefined), ms).unref();
  return Promise.race([work, timeUp.promise]).finally(() => clearTimeout(timer));
}
