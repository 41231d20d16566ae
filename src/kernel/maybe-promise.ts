// Values that may be available synchronously. `await` costs a microtask even on a value that is not a promise; the hot
// endpoints avoid it. bench: parts/check, vendor/get-by-id

export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` at once with a plain value, or after the promise resolves. */
export function thenMaybe<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
