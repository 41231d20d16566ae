// The last few rows of the audit log.
import type { ComponentChildren } from "preact";
import { POLL_MS, useRead } from "../api/query.ts";
import { useNames } from "../audit/names.ts";
import { actionWords } from "../audit/actions.ts";
import { Actor, Target, EnvBadge, type AuditRow } from "../audit/words.tsx";
import { hrefTo } from "../links.ts";
import { LinkButton } from "../components/button.tsx";
import { Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Time } from "../components/time.tsx";

const SHOWN = 5;

type RowsProps = { rows: readonly AuditRow[]; withTarget: boolean; looksUp: boolean };

function Rows({ rows, withTarget, looksUp }: RowsProps) {
  const names = useNames(withTarget ? rows : rows.map((row) => ({ ...row, target_id: null })), looksUp);
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
  /** False: targets have the names that are in their rows, without requests for others. */
  looksUp?: boolean;
  /** Instead of rows, if there are none. */
  none?: ComponentChildren;
  /** Below the rows. */
  foot?: ComponentChildren;
};

export function Recent(props: RecentProps) {
  const { title, target, looksUp = true, none = <p class="muted">None yet.</p>, foot } = props;
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
        {({ data }) =>
          data.length === 0 ? none : <Rows rows={data} withTarget={target === undefined} looksUp={looksUp} />
        }
      </Loaded>
      {foot}
    </Panel>
  );
}
