// How many keys a deletion would end. One page of keys is counted; beyond it the answer is "200 or more".
import { formatNumber, plural } from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import { useRead } from "../api/query.ts";

const COUNTED_MAX = 200;

export function KeysThatStop({ of }: { of: { project_id: string } | { tenant_id: string } }) {
  const { data, problem } = useRead("GET /v1/keys", { query: { ...of, limit: COUNTED_MAX } }).state.value;
  if (problem) return <p>Its keys stop working immediately.</p>;
  if (!data) return <p class="muted">Counting its keys…</p>;
  const count = data.data.filter(
    ({ disabled_at, expires_at }) =>
      disabled_at === null && (expires_at === null || Date.parse(expires_at) > serverNow()),
  ).length;
  if (data.has_more) return <p class="warning">{formatNumber(COUNTED_MAX)} or more keys stop working immediately.</p>;
  if (count === 0) return <p>It has no key that works.</p>;
  return <p class="warning">{plural(count, "key stops", "keys stop")} working immediately.</p>;
}
