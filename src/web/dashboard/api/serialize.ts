// Runs an action after its earlier runs, for changes that are based on what the one before left.
export function oneAtATime<A extends unknown[]>(action: (...args: A) => Promise<void>): (...args: A) => Promise<void> {
  let last: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const run = last.then(() => action(...args));
    last = run.catch(() => {});
    return run;
  };
}
