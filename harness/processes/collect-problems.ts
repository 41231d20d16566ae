// Runs many commands, a few at a time.
const CONCURRENCY = 4;

/** Runs `work` on all items, a few at a time, and returns the problems it reports. */
export async function collectProblems<T>(
  items: readonly T[],
  work: (item: T) => Promise<string | undefined>,
): Promise<string[]> {
  const problems: string[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const problem = await work(items[next++] as T);
      if (problem !== undefined) problems.push(problem);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return problems;
}
