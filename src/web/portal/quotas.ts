// The tenant's quotas: a meter for each, and the same in words.
import { h } from "../shared/dom.ts";
import { ApiError, type Api } from "./api.ts";
import type { Messages } from "./messages.ts";
import type { Quota } from "./types.ts";

/** Empty if they cannot be read, as from an earlier server: keys can be managed without them. */
export async function fetchQuotas(api: Api): Promise<Quota[]> {
  try {
    return (await api.get<{ data: Quota[] }>("quotas")).data;
  } catch (error) {
    if (error instanceof ApiError && error.kind !== "ended") return [];
    throw error;
  }
}

/** What there can be: granted units come on top of the amount. */
const totalOf = ({ amount, remaining }: Quota): number => Math.max(amount, remaining);

function wordsOf(quota: Quota, messages: Messages): string {
  const { remaining, exceeded, resets_at } = quota;
  const values = { left: messages.number(remaining), amount: messages.number(totalOf(quota)) };
  const left = messages.t(exceeded ? "quotaExceeded" : "quotaLeft", values);
  return resets_at === null ? left : `${left} · ${messages.t("quotaResets", { time: messages.date(resets_at) })}`;
}

export function quotaMeters(quotas: readonly Quota[], messages: Messages): HTMLElement[] {
  if (quotas.length === 0) return [];
  const meters = quotas.map((quota) => {
    const id = `quota-${quota.id}`;
    const { remaining } = quota;
    const max = Math.max(1, totalOf(quota));
    return h(
      "li",
      {},
      h("div", { class: "line small" }, h("strong", { id }, quota.id), wordsOf(quota, messages)),
      h("meter", { part: "meter", min: 0, max, low: max / 5, optimum: max, value: remaining, "aria-labelledby": id }),
    );
  });
  return [h("ul", { class: "quotas", part: "quotas", role: "list", "aria-label": messages.t("quotas") }, ...meters)];
}
