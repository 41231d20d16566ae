// Rate limits as a list, with their ids where there are several.
import { ruleText, type Rules } from "./limits.ts";

export function RuleList({ rules }: { rules: Rules }) {
  return (
    <ul class="plain-list">
      {rules.map((rule) => (
        <li key={rule.id}>
          {ruleText(rule)} {rules.length > 1 && <span class="muted small">{rule.id}</span>}
        </li>
      ))}
    </ul>
  );
}
