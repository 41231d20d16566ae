// The names of outcomes. A service may deny for reasons of its own, which are shown as they are.
import { DENIALS } from "../../../kernel/denials.ts";
import { sentenceCase } from "../audit/actions.ts";

/** Their order, colours and names are the same on every page. A map: an outcome may have any name. */
export const OUTCOMES: ReadonlyMap<string, string> = new Map([
  ["allowed", "Allowed"],
  ["rate_limited", "Rate limited"],
  ["invalid_key", "Invalid key"],
  ["expired_key", "Expired key"],
  ["insufficient_scope", "Missing scope"],
]);

const NAMED: ReadonlySet<string> = new Set(["other", ...DENIALS]);

export const outcomeWords = (id: string): string => OUTCOMES.get(id) ?? (NAMED.has(id) ? sentenceCase(id) : id);
