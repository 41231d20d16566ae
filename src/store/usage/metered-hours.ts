// What the columns `settled` and `refused` of a metered hour mean. Without a refused part, `refused` is 0 and `settled`
// counts the parts that were accepted. A refused part stops `settled`; then `refused` is the last part that was
// offered, plus SET_ASIDE while there is none left to offer: hours to send and refused ones are ranges of one index.
import type { MeteredHourRow } from "../schema/tables.ts";

const SET_ASIDE = 1_000_000;

export type RefusedRange = { from: number; below: number };
export const TO_SEND: RefusedRange = { from: 0, below: SET_ASIDE };
export const REFUSED: RefusedRange = { from: 1, below: 2 * SET_ASIDE };

/** How many parts were offered, and accepted or refused. */
export function offeredParts({ settled, refused }: Pick<MeteredHourRow, "settled" | "refused">): number {
  return refused === 0 ? settled : refused % SET_ASIDE;
}
