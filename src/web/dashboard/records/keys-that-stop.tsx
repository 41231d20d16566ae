// How many keys a deletion would end, as a bulk action counts them that is not carried out.
import { plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { useQuery } from "../api/query.ts";

export function KeysThatStop({ of }: { of: { project_id: string } | { tenant_id: string } }) {
  const body = { action: "revoke", filter: { ...of, state: "active" }, dry_run: true, limit: 1 } as const;
  // By a name without its path: it must not be counted again by what refreshes reads after the change.
  const read = useQuery(`keys that stop ${JSON.stringify(of)}`, (signal) =>
    call("POST /v1/bulk/keys", { body }, { signal }),
  );
  const { data, problem } = read.state.value;
  if (problem) return <p>Its keys stop working immediately.</p>;
  if (!data) return <p class="muted">Counting its keys…</p>;
  if (!data.matched) return <p>It has no key that works.</p>;
  return <p class="warning">{plural(data.matched, "key stops", "keys stop")} working immediately.</p>;
}
