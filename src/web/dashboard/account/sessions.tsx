// The person's sessions on this server.
import { plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { toProblem } from "../api/problems.ts";
import { refreshReads, useRead } from "../api/query.ts";
import type { RouteOutput } from "../../../client.ts";
import { ActionButton } from "../forms/action.tsx";
import { Badge } from "../components/badge.tsx";
import { Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Time } from "../components/time.tsx";
import { toast } from "../shell/toasts.tsx";

type SessionRow = RouteOutput<"GET /v1/auth/sessions">["data"][number];

/** One after the other: hundreds at once would exceed the server's share of one person. */
async function end(ids: readonly string[], words: string): Promise<void> {
  let failed: unknown;
  for (const id of ids) {
    await call("DELETE /v1/auth/sessions/{id}", { params: { id } }).catch((error: unknown) => {
      if (toProblem(error).status !== 404) failed = error; // 404: it has ended by itself
    });
  }
  refreshReads("/v1/auth/sessions");
  if (failed) throw failed;
  toast(words);
}

const columns: Column<SessionRow>[] = [
  {
    head: "Session",
    names: true,
    cell: ({ display_prefix, current }) => (
      <span class="chips">
        <code>{display_prefix}…</code>
        {current && <Badge tone="accent">This session</Badge>}
      </span>
    ),
  },
  { head: "Started", cell: ({ created_at }) => <Time at={created_at} /> },
  { head: "Last seen", cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  { head: "Ends", cell: ({ expires_at }) => <Time at={expires_at} /> },
  {
    head: "Actions",
    actions: true,
    cell: ({ id, display_prefix, current }) =>
      !current && (
        <ActionButton label={`End session ${display_prefix}…`} send={() => end([id], "Session ended.")}>
          End session
        </ActionButton>
      ),
  },
];

const SHOWN_MAX = 50;

/** The newest, and this one. */
const firstOf = (rows: readonly SessionRow[]): SessionRow[] =>
  rows.toSorted((a, b) => Number(b.current) - Number(a.current)).slice(0, SHOWN_MAX);

export function Sessions() {
  const read = useRead("GET /v1/auth/sessions", {});
  const others = (read.state.value.data?.data ?? []).filter(({ current }) => !current).map(({ id }) => id);
  return (
    <Panel
      title="Sessions"
      actions={
        <ActionButton
          disabled={others.length === 0 ? "There is no other session." : null}
          send={() => end(others, "All other sessions ended.")}
        >
          End other sessions
        </ActionButton>
      }
    >
      <Loaded read={read}>
        {({ data }) => (
          <>
            <Table caption="Sessions" columns={columns} rows={firstOf(data)} rowKey={({ id }) => id} />
            {data.length > SHOWN_MAX && (
              <p class="panel-foot muted">and {plural(data.length - SHOWN_MAX, "older session")}</p>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
