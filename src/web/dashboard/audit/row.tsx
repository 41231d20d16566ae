// One row of the audit log: who, what, the values before and after, and its hashes.
import { formatNumber } from "../../shared/format.ts";
import type { Plan } from "../api/records.ts";
import { isNotFound, useRead } from "../api/query.ts";
import type { Rules } from "../keys/limits.ts";
import { RuleList } from "../keys/rule-list.tsx";
import { hrefToList } from "../links.ts";
import { QuotaList } from "../plans/quota-list.tsx";
import { Chips } from "../components/badge.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { useNames } from "./names.ts";
import { actionWords } from "./actions.ts";
import { Actor, ACTOR_TYPES, Target, type AuditRow } from "./words.tsx";

type Change = { old: unknown; new: unknown };

const isChange = (value: unknown): value is Change =>
  typeof value === "object" && value !== null && "old" in value && "new" in value;

const isListOf = <T extends object>(value: unknown, field: keyof T & string): value is T[] =>
  Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "object" && one && field in one);

function Value({ name, value }: { name: string; value: unknown }) {
  if (isListOf<Rules[number]>(value, "window_ms")) return <RuleList rules={value} />;
  if (isListOf<Plan["quotas"][number]>(value, "refill")) return <QuotaList quotas={value} />;
  if (name.endsWith("rate_limits") && value === null) return <>Inherited</>;
  if (value === null) return <span class="muted">none</span>;
  if (typeof value === "string") return <UserText>{value}</UserText>;
  if (name === "scopes" && Array.isArray(value)) return <Chips values={value as string[]} />;
  return (
    <code class="json">
      <bdi>{JSON.stringify(value, null, 2)}</bdi>
    </code>
  );
}

function Changes({ changes }: { changes: readonly (readonly [string, Change])[] }) {
  return (
    <div class="table-scroll">
      <table class="table">
        <caption class="hide">Changed values</caption>
        <thead>
          <tr>
            {["Field", "Before", "After"].map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {changes.map(([name, change]) => (
            <tr key={name}>
              <th scope="row" data-label="Field">
                {name}
              </th>
              <td data-label="Before">
                <Value name={name} value={change.old} />
              </td>
              <td data-label="After">
                <Value name={name} value={change.new} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Payload({ payload }: Pick<AuditRow, "payload">) {
  const entries = Object.entries(payload);
  const changes = entries.flatMap(([name, value]) => (isChange(value) ? [[name, value] as const] : []));
  const others = entries.filter(([, value]) => !isChange(value));
  return (
    <>
      {changes.length > 0 && (
        <Panel title="Changed values">
          <Changes changes={changes} />
        </Panel>
      )}
      {(others.length > 0 || changes.length === 0) && (
        <Panel title="Values">
          {others.length === 0 && <p class="muted">None.</p>}
          <Facts
            facts={Object.fromEntries(
              others.map(([name, value]) => [name, <Value key={name} name={name} value={value} />]),
            )}
          />
        </Panel>
      )}
    </>
  );
}

function Details({ row }: { row: AuditRow }) {
  const names = useNames([row]);
  return (
    <div class="two-columns">
      <div>
        <Payload payload={row.payload} />
        <Panel title="Hashes">
          <Facts
            facts={{
              Hash: <CopyText text={row.hash} name="Copy hash" />,
              Previous: <CopyText text={row.prev_hash} name="Copy previous hash" />,
            }}
          />
        </Panel>
      </div>
      <Panel title="Details">
        <Facts
          facts={{
            Row: formatNumber(row.seq),
            Time: <Time at={row.occurred_at} />,
            UTC: row.occurred_at,
            Actor: <Actor row={row} names={names} />,
            // Without a person the actor is named by its type.
            "Actor type": row.actor && (ACTOR_TYPES[row.actor_type] ?? row.actor_type),
            Target: <Target row={row} names={names} />,
            "Target id": row.target_id === null ? "None" : <CopyText text={row.target_id} name="Copy id" />,
          }}
        />
      </Panel>
    </div>
  );
}

export function AuditRowPage({ id }: { id: string }) {
  const seq = /^[1-9]\d{0,14}$/.test(id) ? Number(id) : Number.MAX_SAFE_INTEGER;
  const read = useRead("GET /v1/audit_logs", { query: { after_seq: seq - 1, limit: 1 } });
  const { data } = read.state.value;
  const row = data?.data.find((one) => one.seq === seq);
  return (
    <Page
      isMissing={isNotFound(read) || (data !== null && !row)}
      title={row ? actionWords(row.action) : `Row ${id}`}
      lead={
        <>
          Row {id} of the audit log
          {row && (
            <>
              {" · "}
              <code>{row.action}</code>
            </>
          )}
        </>
      }
      back={{ href: hrefToList("audit"), label: "Audit" }}
    >
      <Loaded read={read}>{() => row && <Details row={row} />}</Loaded>
    </Page>
  );
}
