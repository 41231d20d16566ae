// The last few rows of the audit log.
import type { RouteOutput } from "../../../client.ts";
import { useRead } from "../api/query.ts";
import { hrefTo, knownPages } from "../here.ts";
import { LinkButton } from "../parts/button.tsx";
import { Panel } from "../parts/page.tsx";
import { Time } from "../parts/time.tsx";

type Rows = RouteOutput<"GET /v1/audit_logs">;

const EVERY_MS = 10_000;
const SHOWN = 5;

const who = ({ actor, actor_type }: Rows["data"][number]): string =>
  actor?.name ?? actor?.email ?? actor_type.replaceAll("_", " ");

/** `target`: the id of the record that the rows are about; without it, rows about anything. */
export function Recent({ target, title = "Recent changes" }: { target?: string; title?: string }) {
  const query = { order: "desc" as const, limit: SHOWN, ...(target !== undefined && { target_id: target }) };
  const { data } = useRead("GET /v1/audit_logs", { query }, { everyMs: EVERY_MS }).answer.value;
  if (!data || data.data.length === 0) return null;
  return (
    <Panel
      title={title}
      actions={
        knownPages.has("audit") && (
          <LinkButton kind="quiet" href={hrefTo("audit", { query: { target_id: target } })}>
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
