// Suggestions for misspelt names.

/** ` Did you mean "…"?` for the most similar name, or nothing when none is similar. */
export function suggestion(name: string, known: readonly string[]): string {
  const best = known.toSorted((a, b) => editDistance(name, a) - editDistance(name, b))[0];
  return best && editDistance(name, best) <= Math.max(2, name.length / 3) ? `. Did you mean "${best}"?` : "";
}

/** Levenshtein distance. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
