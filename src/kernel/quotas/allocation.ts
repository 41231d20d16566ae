// From which sources the units of a quota are taken: what ends first is spent first. The amount of a period ends with
// the period, a grant when it expires; among equals the older one is first.

/** `grant` is null for the period's own amount. */
export type UnitSource = { readonly grant: string | null; readonly left: number; readonly end: number };
/** Units of one source, and when they end. */
export type Part = { readonly grant: string | null; units: number; readonly end: number };

const BLOCK_MAX = 1_000;
const BLOCK_SHARE = 64;

/** How many of these units a process takes at a time. */
export function blockSize(available: number): number {
  return Math.min(BLOCK_MAX, Math.max(1, Math.floor(available / BLOCK_SHARE)));
}

/** `sources` by age. What they lack is taken from the amount, which becomes overdrawn. */
export function allocate(units: number, sources: readonly UnitSource[]): Part[] {
  const parts: Part[] = [];
  let missing = units;
  for (const { grant, left, end } of sources.toSorted((a, b) => compare(a.end, b.end))) {
    const taken = Math.min(left, missing);
    if (taken <= 0) continue;
    parts.push({ grant, units: taken, end });
    missing -= taken;
  }
  const amount = sources.find(({ grant }) => grant === null);
  if (missing > 0) addPart(parts, { grant: null, units: missing, end: amount?.end ?? Number.POSITIVE_INFINITY });
  return parts;
}

/** Keeps the order in which parts are spent. */
export function addPart(parts: Part[], part: Part): void {
  const known = parts.find(({ grant }) => grant === part.grant);
  if (known) known.units += part.units;
  else parts.splice(parts.filter(({ end }) => end <= part.end).length, 0, { ...part });
}

export function sumOf(parts: readonly { units: number }[]): number {
  let sum = 0;
  for (const { units } of parts) sum += units;
  return sum;
}

/** Compares infinities as equal: their difference is NaN. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
