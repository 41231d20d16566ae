// Rate limit rules as people write them: one line each, "100 / 1 minute" or "100 / 60 s per tenant".
import { DAY_MS } from "../../../kernel/durations.ts";
import { WINDOW_MS_MAX, WINDOW_MS_MIN, type RateLimit } from "../../../kernel/ratelimit/rule.ts";
import { fieldProblem } from "../api/problems.ts";
import { linesOf } from "../forms/lines.ts";

export type Rules = RateLimit[];

const UNITS: readonly [name: string, ms: number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
  ["ms", 1],
];
const SHORT: Record<string, string> = { s: "second", sec: "second", m: "minute", min: "minute", h: "hour", d: "day" };
const LINE =
  /^(?:([a-z0-9][a-z0-9._-]{0,63}):\s*)?(\d+)\s*(?:\/|per)\s*(\d+)?\s*(ms|[a-z]+?)s?(?:\s+per\s+(key|tenant))?(?:\s+(fixed|sliding))?$/i;

function windowText(ms: number): string {
  const [name, unit] = UNITS.find(([, size]) => ms % size === 0) ?? ["ms", 1];
  const count = ms / unit;
  if (count === 1) return name;
  return name === "ms" ? `${count} ms` : `${count} ${name}s`;
}

/** "100 / minute per tenant". */
export function ruleText({ limit, window_ms, scope, algorithm }: Rules[number]): string {
  const suffix = [scope === "tenant" ? " per tenant" : "", algorithm === "fixed" ? " fixed" : ""].join("");
  return `${limit} / ${windowText(window_ms)}${suffix}`;
}

export const rulesText = (rules: Rules): string => rules.map((rule) => `${rule.id}: ${ruleText(rule)}`).join("\n");

function parseLine(line: string, index: number): Rules[number] | null {
  const [, id, limit = "", count = "1", word = "", scope, algorithm] = LINE.exec(line) ?? [];
  const name = SHORT[word.toLowerCase()] ?? word.toLowerCase();
  const unit = UNITS.find(([each]) => each === name)?.[1];
  if (unit === undefined) return null;
  return {
    id: id?.toLowerCase() ?? `rule-${index + 1}`,
    limit: Number(limit),
    window_ms: Number(count) * unit,
    algorithm: algorithm?.toLowerCase() === "fixed" ? "fixed" : "sliding",
    scope: scope?.toLowerCase() === "tenant" ? "tenant" : "key",
  };
}

function mistakeIn(rule: Rules[number] | null, others: Rules): string | null {
  if (!rule) return "this line is not a rule";
  if (rule.limit < 1) return "a limit is at least 1";
  if (rule.window_ms < WINDOW_MS_MIN) return "a window is at least 1 second";
  if (rule.window_ms > WINDOW_MS_MAX) return `a window is at most ${WINDOW_MS_MAX / DAY_MS} days`;
  return others.some(({ id }) => id === rule.id) ? `two rules are named ${rule.id}` : null;
}

/** The rules of a field's lines. Throws a problem of that field that names the first line with a mistake. */
export function rulesOf(text: string, field: string): Rules {
  const rules: Rules = [];
  for (const [index, line] of linesOf(text).entries()) {
    const rule = parseLine(line, index);
    const mistake = mistakeIn(rule, rules);
    if (mistake !== null) throw fieldProblem(field, `: ${mistake}: ${line}`);
    if (rule) rules.push(rule);
  }
  return rules;
}
