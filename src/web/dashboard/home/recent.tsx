// The last few rows of the audit log.
import type { ComponentChildren } from "preact";
import { POLL_MS, useRead } from "../api/query.ts";
import { useNames } from "../audit/names.ts";
import { actionWords, Actor, Target, EnvBadge, type AuditRow } from "../audit/words.tsx";
import { hrefTo } from "../here.ts";
import { LinkButton } from "../parts/button.tsx";
import { Panel } from "../parts/page.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Time } from "../parts/time.tsx";

const SHOWN = 5;

function Rows({ rows, withTarget }: { rows: readonly AuditRow[]; withTarget: boolean }) {
  const names = useNames(withTarget ? rows : rows.map((row) => ({ ...row, target_id: null })));
  return (
    <ul class="plain-list">
      {rows.map((row) => (
        <li key={row.id} class="recent">
          <a href={hrefTo("audit", { id: String(row.seq) })} title={row.action}>
            {actionWords(row.action)}
          </a>
          {withTarget && <EnvBadge of={row} />}
          <span class="grow muted small">
            <Actor row={row} names={names} />
            {withTarget && (
              <>
                {" · "}
                <Target row={row} names={names} />
              </>
            )}
          </span>
          <Time at={row.occurred_at} />
        </li>
      ))}
    </ul>
  );
}

type RecentProps = {
  title: string;
  /** The id of the record that the rows are about; without it, rows about anything. */
  target?: string;
  /** Instead of rows, where there are none. */
  none?: ComponentChildren;
  /** Below the rows. */
  foot?: ComponentChildren;
};

export function Recent({ title, target, none = <p class="muted">None yet.</p>, foot }: RecentProps) {
  const query = { order: "desc" as const, limit: SHOWN, ...(target !== undefined && { target_id: target }) };
  const read = useRead("GET /v1/audit_logs", { query }, { everyMs: POLL_MS.usual });
  return (
    <Panel
      title={title}
      actions={
        <LinkButton kind="quiet" href={hrefTo("audit", { query: { target } })}>
          Audit log
        </LinkButton>
      }
    >
      <Loaded read={read}>
        {({ data }) => (data.length === 0 ? none : <Rows rows={data} withTarget={target === undefined} />)}
      </Loaded>
      {foot}
    </Panel>
  );
}
