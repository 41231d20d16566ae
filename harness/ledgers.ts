// A ledger without bounds, for tests of what takes one.
import { Ledger } from "../src/fairness/ledger.ts";

export const unboundedLedger = (): Ledger =>
  new Ledger({ bound: Number.POSITIVE_INFINITY, share: Number.POSITIVE_INFINITY });
