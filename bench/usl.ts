// The universal scalability law: X(n) = λn / (1 + σ(n − 1) + κn(n − 1)), where σ is the share of work that only one can
// do at a time and κ what each pair costs. n / X(n) is linear in σ and κ, so least squares fit it.
export type Point = { n: number; rate: number };
type Usl = { lambda: number; sigma: number; kappa: number; best: string };

export function fitUsl(points: readonly Point[]): Usl {
  const both = solve(points, [one, contention, crosstalk]);
  // A negative cost has no meaning: such a term is left out.
  const [a = 0, b = 0, c = 0] =
    both[2] !== undefined && both[2] < 0
      ? [...solve(points, [one, contention]), 0]
      : (both[1] ?? 0) < 0
        ? withoutContention(points)
        : both;
  const [sigma, kappa] = [Math.max(0, b / a), Math.max(0, c / a)];
  const peak = kappa > 0 ? Math.sqrt((1 - sigma) / kappa) : Number.POSITIVE_INFINITY;
  return { lambda: 1 / a, sigma, kappa, best: Number.isFinite(peak) ? String(Math.max(1, Math.round(peak))) : "more" };
}

type Term = (n: number) => number;
const one: Term = () => 1;
const contention: Term = (n) => n - 1;
const crosstalk: Term = (n) => n * (n - 1);

function withoutContention(points: readonly Point[]): [number, number, number] {
  const [a = 0, c = 0] = solve(points, [one, crosstalk]);
  return [a, 0, c];
}

/** Least squares of n / rate over the terms, by Gaussian elimination of the normal equations. */
function solve(points: readonly Point[], terms: readonly Term[]): number[] {
  const rows = terms.map((row) => [
    ...terms.map((column) => points.reduce((sum, { n }) => sum + row(n) * column(n), 0)),
    points.reduce((sum, { n, rate }) => sum + row(n) * (n / rate), 0),
  ]);
  for (const [i, pivot] of rows.entries()) {
    for (const [j, row] of rows.entries()) {
      if (i === j) continue;
      const factor = (row[i] ?? 0) / (pivot[i] ?? 1);
      for (let k = i; k < row.length; k++) row[k] = (row[k] ?? 0) - factor * (pivot[k] ?? 0);
    }
  }
  return rows.map((row, i) => (row.at(-1) ?? 0) / (row[i] ?? 1));
}
