// How many keys a deletion would end. One page of keys is counted; with more the answer is "at least".
import { plural } from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import { useRead } from "../api/query.ts";

const COUNTED_MAX = 200;

export function KeysThatStop({ of }: { of: { project_id: string } | { tenant_id: string } }) {
  const { data, problem } = useRead("GET /v1/keys", { query: { ...of, limit: COUNTED_MAX } }).state.value;
  const count = (data?.data ?? []).filter(
    ({ disabled_at, expires_at }) =>
      disabled_at === null && (expires_at === null || Date.parse(expires_at) > serverNow()),
  ).length;
  // Keys beyond the first page may work although none of that page does.
  if (problem || (data?.has_more && count === 0)) return <p>Its keys stop working immediately.</p>;
  if (!data) return <p class="muted">Counting its keys…</p>;
  if (count === 0) return <p>It has no key that works.</p>;
  return (
    <p class="warning">
      {data.has_more && "At least "}
      {plural(count, "key stops", "keys stop")} working immediately.
    </p>
  );
}
