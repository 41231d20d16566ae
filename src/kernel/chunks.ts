// Splits lists.

/** The items in order, at most `size` at a time. */
export function* chunked<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}
