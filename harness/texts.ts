// Compares long texts without giving them to a matcher, which would print them.

const SHOWN = 500;

/** The first lines that differ, each with its number and shortened; null for equal texts. */
export function firstDifference(one: string, other: string): string[] | null {
  if (one === other) return null;
  const [lines, others] = [one.split("\n"), other.split("\n")];
  const at = lines.findIndex((line, i) => line !== others[i]);
  const i = at < 0 ? lines.length : at;
  const [a, b] = [lines[i] ?? "(the end)", others[i] ?? "(the end)"];
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  return [a, b].map((line) => `${i + 1}: ${line.slice(Math.max(0, start - 50), start + SHOWN)}`);
}
