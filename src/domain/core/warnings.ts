// Warnings: what was done as asked but probably not meant, in the response of the change that causes it.
export type Warning = { path: string; message: string };

export type Warned<T> = T & { warnings?: Warning[] };

/** The field is absent if there is nothing to warn of. */
export function withWarnings<T extends object>(value: T, warnings: readonly Warning[]): Warned<T> {
  return warnings.length === 0 ? value : { ...value, warnings: [...warnings] };
}
