// Quotas as a list, with their ids.
import type { Plan } from "../api/records.ts";
import { quotaText } from "./words.ts";

export function QuotaList({ quotas }: Pick<Plan, "quotas">) {
  return (
    <ul class="plain-list">
      {quotas.map((quota) => (
        <li key={quota.id}>
          {quotaText(quota)} <span class="muted small">{quota.id}</span>
        </li>
      ))}
    </ul>
  );
}
