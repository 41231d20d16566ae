// The default rate limits of a project: as a list, and as a field with one rule on each line.
import { TextAreaField } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { rulesOf, rulesText, type Rules } from "../keys/limits.ts";
import { RuleList } from "../keys/rule-list.tsx";

const NAME = "default_rate_limits";

export function DefaultLimitsField({ value = [] }: { value?: Rules }) {
  return (
    <TextAreaField
      name={NAME}
      label="Default rate limits"
      optional
      mono
      rows={3}
      value={rulesText(value)}
      hint="For keys without limits of their own. One on each line: 100 / minute, or burst: 20 / 10 seconds per tenant."
    />
  );
}

/** Throws a problem that names the line which is not a rule. */
export const defaultLimitsOf = (values: Values): Rules => rulesOf(values[NAME] ?? "", NAME);

export function DefaultLimits({ rules }: { rules: Rules }) {
  if (rules.length === 0) return <p class="muted">None. A key without limits of its own is not limited.</p>;
  return <RuleList rules={rules} />;
}
