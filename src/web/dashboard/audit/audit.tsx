// The audit log, newest first, with filters.
import { formatNumber } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import { Filters, SelectFilter } from "../forms/filters.tsx";
import { TextFilter } from "../forms/search.tsx";
import type { Option } from "../forms/field.tsx";
import { hrefTo, param, setParams } from "../links.ts";
import { Page } from "../components/page.tsx";
import { pageCursor, pageSize } from "../components/pager.tsx";
import { List } from "../records/list.tsx";
import type { Column } from "../components/table.tsx";
import { Time } from "../components/time.tsx";
import { useVerification } from "./verify-panel.tsx";
import { useNames } from "./names.ts";
import { actionWords, NOUNS, typeWords } from "./actions.ts";
import { Actor, ACTOR_TYPES, actorText, short, Target, EnvBadge, type AuditRow, type Names } from "./words.tsx";

const FILTERS = ["action", "actor", "target", "from", "to"];

const ID = /^[\da-f-]{36}$/;

/** When a day of the browser's time zone starts, in which times are shown too. */
function startOf(day: string, daysLater = 0): string {
  const start = new Date(`${day}T00:00`);
  start.setDate(start.getDate() + daysLater);
  return start.toISOString();
}

function filters() {
  const [action, target_id, from, to] = [param("action"), param("target"), param("from"), param("to")];
  const actor = param("actor");
  const actor_type = (Object.keys(ACTOR_TYPES) as AuditRow["actor_type"][]).find((type) => type === actor);
  const isDay = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text));
  const cursor = pageCursor();
  return {
    order: "desc" as const,
    limit: pageSize(),
    ...(action !== "" && { action }),
    ...(actor_type && { actor_type }),
    ...(ID.test(actor) && { actor_id: actor }),
    ...(target_id !== "" && { target_id }),
    ...(isDay(from) && { from: startOf(from) }),
    ...(isDay(to) && { to: startOf(to, 1) }),
    ...(cursor !== undefined && { cursor }),
  };
}

function DayFilter({ name, label }: { name: "from" | "to"; label: string }) {
  return (
    <label class="day-filter small">
      {label}
      <input
        type="date"
        value={param(name)}
        onChange={({ currentTarget: { value } }) => {
          // Each digit of a typed year is a change: 0002, 0020, 0202, 2026.
          if (value === "" || value >= "2000") setParams({ [name]: value, after: null });
        }}
      />
    </label>
  );
}

/** Types of actors, and the one whose rows are listed, by its name where a row has it. */
function actorOptions(rows: readonly AuditRow[], names: Names): Option[] {
  const types: Option[] = [["", "All actors"], ...Object.entries(ACTOR_TYPES)];
  const chosen = param("actor");
  if (!ID.test(chosen)) return types;
  const row = rows.find(({ actor_id }) => actor_id === chosen);
  return [...types, [chosen, row ? actorText(row, names) : short(chosen)]];
}

function AuditFilters({ rows, names }: { rows: readonly AuditRow[]; names: Names }) {
  const nouns = NOUNS.map((noun) => [`${noun}.*`, `${typeWords(noun)}: all`] as const);
  const other = param("action");
  const known = other === "" || nouns.some(([value]) => value === other);
  const actions: Option[] = [["", "All actions"], ...nouns, ...(known ? [] : [[other, other] as const])];
  return (
    <Filters label="Filter the log" names={FILTERS}>
      <SelectFilter name="action" label="Action" options={actions} />
      <SelectFilter name="actor" label="Actor" options={actorOptions(rows, names)} />
      <TextFilter name="target" label="Target id" />
      <DayFilter name="from" label="From" />
      <DayFilter name="to" label="To" />
    </Filters>
  );
}

const columns = (names: Names): Column<AuditRow>[] => [
  {
    head: "Action",
    names: true,
    cell: (row) => (
      <span class="chips">
        <a href={hrefTo("audit", { id: String(row.seq) })} title={row.action}>
          {actionWords(row.action)}
        </a>
        <EnvBadge of={row} />
      </span>
    ),
  },
  { head: "Actor", cell: (row) => <Actor row={row} names={names} /> },
  { head: "Target", cell: (row) => <Target row={row} names={names} /> },
  { head: "Time", cell: ({ occurred_at }) => <Time at={occurred_at} /> },
  { head: "Row", number: true, room: 560, cell: ({ seq }) => formatNumber(seq) },
];

const LEAD =
  "Every change in this workspace, in live and in test, newest first. Each row contains the hash of the row before it, so your browser can verify the log without trusting the server.";

export function Audit() {
  const read = useRead("GET /v1/audit_logs", { query: filters() }, { keeps: true });
  const rows = read.state.value.data?.data ?? [];
  const names = useNames(rows);
  const { actions, results } = useVerification();
  return (
    <Page title="Audit" lead={LEAD} actions={actions}>
      {results}
      <AuditFilters rows={rows} names={names} />
      <List
        read={read}
        caption="Audit log"
        columns={columns(names)}
        what="row"
        filters={FILTERS}
        empty={<p class="muted">No rows yet.</p>}
      />
    </Page>
  );
}
