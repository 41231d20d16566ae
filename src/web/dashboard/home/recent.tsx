// The last few rows of the audit log.
import type { RouteOutput } from "../../../client.ts";
import { request } from "../api/call.ts";
import { useQuery } from "../api/query.ts";
import { hrefTo, knownPages } from "../here.ts";
import { LinkButton } from "../parts/button.tsx";
import { Panel } from "../parts/page.tsx";
import { Time } from "../parts/time.tsx";

type Rows = RouteOutput<"GET /v1/audit_logs">;

const EVERY_MS = 10_000;
const SHOWN = 5;

const who = ({ actor, actor_type }: Rows["data"][number]): string =>
  actor?.name ?? actor?.email ?? actor_type.replaceAll("_", " ");

export function Recent() {
  const load = async (abort: AbortSignal): Promise<Rows> => {
    const response = await request("GET /v1/audit_logs", { query: { order: "desc", limit: SHOWN } }, { signal: abort });
    return (await response.json()) as Rows;
  };
  const { data } = useQuery("GET /v1/audit_logs recent", load, { everyMs: EVERY_MS }).answer.value;
  if (!data) return null;
  return (
    <Panel
      title="Recent changes"
      actions={
        knownPages.has("audit") && (
          <LinkButton kind="quiet" href={hrefTo("audit")}>
            Open the audit log
          </LinkButton>
        )
      }
    >
      <ul class="plain-list">
        {data.data.map((row) => (
          <li key={row.id} class="recent">
            <code>{row.action}</code>
            <span class="grow muted small">
              <bdi>{who(row)}</bdi>
            </span>
            <Time at={row.occurred_at} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
