// Rate limits as a list, each with its id.
import { ruleText, type Rules } from "./limits.ts";

export function RuleList({ rules }: { rules: Rules }) {
  return (
    <ul class="plain-list">
      {rules.map((rule) => (
        <li key={rule.id}>
          {ruleText(rule)} <span class="muted small">{rule.id}</span>
        </li>
      ))}
    </ul>
  );
}
