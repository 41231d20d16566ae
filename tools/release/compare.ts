// Compares two folders of a release byte by byte.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The first difference, or null: a file that only one has, or a file and the offset of the first byte that differs. */
export function firstDifference(a: string, b: string): string | null {
  const [inA, inB] = [a, b].map((folder) => new Set(readdirSync(folder)));
  for (const name of [...new Set([...(inA ?? []), ...(inB ?? [])])].toSorted()) {
    if (!inA?.has(name) || !inB?.has(name)) return `${name} was made only once`;
    const [x, y] = [readFileSync(join(a, name)), readFileSync(join(b, name))];
    if (x.equals(y)) continue;
    const differs = x.findIndex((byte, i) => byte !== y[i]);
    return `${name} differs at offset ${differs === -1 ? x.length : differs}`;
  }
  return null;
}
