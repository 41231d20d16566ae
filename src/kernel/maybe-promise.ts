// Values that may be there already. An await costs a turn of the microtask queue even where there is nothing to wait for;
// on the paths that machines take thousands of times a second that is most of the work.

export type MaybePromise<T> = T | Promise<T>;

/** Goes on at once where the value is there, and after it where it is not. */
export function thenMaybe<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
