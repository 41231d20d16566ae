// Splits lists.

/** The items in order, at most `size` at a time. */
export function* chunked<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}

/** Does `work` for all items, at most `size` at a time. */
export async function forChunks<T>(
  items: readonly T[],
  size: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  for (const some of chunked(items, size)) await Promise.all(some.map(work));
}
