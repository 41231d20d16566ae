// Units that a process has taken from a balance at once, durably, to spend them in memory.
import type { Part } from "../../kernel/quotas/allocation.ts";
import type { Period } from "../../kernel/quotas/period.ts";
import type { Quota } from "../../kernel/quotas/quota.ts";

export type Block = {
  readonly period: Period;
  readonly end: number;
  readonly size: number;
  /** Units of the amount that were taken in all, with this block; 0 if it has none of them. */
  readonly fromAmount: number;
  /** The holding's generation when the block was taken. */
  readonly generation: number;
  parts: Part[];
  /** The block was given up: spent units that are restored to it are given back too. */
  isOver: boolean;
};

/** Units that were spent, and where they came from. */
export type Spent = { readonly block: Block; readonly part: Part }[];

/**
 * Whether a block may be spent under a quota: not if it reaches beyond the quota's amount. Its `fromAmount` counts all
 * units that were spent before, so no quota is overspent, under whichever one the block was taken.
 */
export const isWithin = (block: Block, { overage, amount }: Quota): boolean =>
  overage === "report" || block.fromAmount <= amount;
