// Values that may be available synchronously. `await` costs a microtask even on a value that is not a promise; the hot
// endpoints avoid it. bench: parts/check, vendor/get-by-id

export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` at once with a plain value, or after the promise resolves. */
export function thenMaybe<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Calls `handle` with what `work` throws or rejects with. */
export function catchMaybe<T>(work: () => MaybePromise<T>, handle: (error: unknown) => T): MaybePromise<T> {
  try {
    const value = work();
    return value instanceof Promise ? value.catch(handle) : value;
  } catch (error) {
    return handle(error);
  }
}
