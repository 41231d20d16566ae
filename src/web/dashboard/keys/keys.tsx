// The list of keys.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { useRead, type Read } from "../api/query.ts";
import { env, hrefTo, param, setParams } from "../links.ts";
import { Chips } from "../components/badge.tsx";
import { Button, LinkButton, roleReason } from "../components/button.tsx";
import { clearFilters, isFiltered } from "../forms/filters.tsx";
import { useCreate } from "../forms/create.tsx";
import { Empty, NoMatch } from "../components/empty.tsx";
import { Menu } from "../components/menu.tsx";
import { Page } from "../components/page.tsx";
import { nextCursor, pageCursor, Pager } from "../components/pager.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { CreateKey } from "./create.tsx";
import { bulkFilter, filtersText, KEY_FILTERS, KeyFilters, keysQuery } from "./filters.tsx";
import { DIALOGS } from "./key.tsx";
import { keyColumn, RecordLink, timeColumns } from "./key-name.tsx";
import { LookUpKey } from "./lookup.tsx";
import { keyTitle, tenantLabel, useProjects, useTenants, type Project, type Tenant } from "../api/records.ts";
import { toast } from "../shell/toasts.tsx";
import { SelectionBar } from "../bulk/selection.tsx";
import { StateBadge } from "./state-badge.tsx";
import { endedReason, rotateReason, type ApiKey } from "./state.ts";

type Chosen = { of: ApiKey; action: keyof typeof DIALOGS };

type Names = { projects: readonly Project[]; tenants: ReadonlyMap<string, Tenant> };
type Choose = (chosen: Chosen) => void;

/** The column that the list is for is beside the state. */
const SUBJECTS: Partial<Record<string, string>> = { expiring: "Expires", expired: "Expires", idle: "Last used" };

function subjectFirst(columns: readonly Column<ApiKey>[]): readonly Column<ApiKey>[] {
  const subject = columns.find(({ head }) => head === SUBJECTS[param("state")]);
  if (!subject) return columns;
  const others = columns.filter((column) => column !== subject);
  return others.flatMap((column) => (column.head === "State" ? [column, subject] : [column]));
}

/** On plain HTTP browsers have no clipboard; the key's page shows the id. */
function copyId(id: string): void {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  const fail = (): void => toast("The browser did not allow copying. The key's page shows its id.");
  if (clipboard) clipboard.writeText(id).then(() => toast("Id copied."), fail);
  else fail();
}

function KeyMenu({ of, onChoose }: { of: ApiKey; onChoose: Choose }) {
  const refused = roleReason("admin");
  const choose = (action: Chosen["action"]) => () => onChoose({ of, action });
  const ended = refused ?? endedReason(of);
  const groups = [
    [
      { label: "Open", href: hrefTo("keys", { id: of.id }) },
      { label: "Copy id", onSelect: () => copyId(of.id) },
    ],
    [
      { label: "Edit", disabled: ended, onSelect: choose("edit") },
      { label: "Rotate", disabled: refused ?? rotateReason(of), onSelect: choose("rotate") },
      { label: of.disabled_at === null ? "Disable" : "Enable", disabled: ended, onSelect: choose("disable") },
      { label: "Revoke", disabled: ended, danger: true, onSelect: choose("revoke") },
    ],
  ];
  return <Menu label={`Actions for ${keyTitle(of)}`} groups={groups} />;
}

function columns({ projects, tenants }: Names, onChoose: Choose): Column<ApiKey>[] {
  const tenantCell = ({ tenant_id }: ApiKey) => {
    const tenant = tenants.get(tenant_id);
    return <RecordLink page="tenants" id={tenant_id} label={tenant && tenantLabel(tenant)} />;
  };
  const projectCell = ({ project_id }: ApiKey) => (
    <RecordLink page="projects" id={project_id} label={projects.find(({ id }) => id === project_id)?.name} />
  );
  return [
    keyColumn,
    { head: "Tenant", cell: tenantCell },
    {
      head: "Project",
      room: 780,
      cell: projectCell,
      fold: projectCell,
    },
    { head: "State", cell: (key) => <StateBadge of={key} tenant={tenants.get(key.tenant_id)} /> },
    { head: "Scopes", room: 960, cell: ({ scopes }) => <Chips values={scopes} max={1} /> },
    ...timeColumns(560),
    {
      head: "Actions",
      actions: true,
      cell: (key) => <KeyMenu of={key} onChoose={onChoose} />,
    },
  ];
}

const labelOf = (key: ApiKey | undefined): string => (key ? keyTitle(key) : "key");

function NoKeys({ create }: { create: ComponentChildren }) {
  if (isFiltered(KEY_FILTERS)) {
    const all = param("state") === "" && (
      <Button onClick={() => setParams({ state: "all", after: null })}>Include revoked keys</Button>
    );
    return <NoMatch what="keys" q={param("q")} action={all} onClear={() => clearFilters(KEY_FILTERS)} />;
  }
  return (
    <Empty
      icon="key"
      title={`No ${env.value} keys yet`}
      action={
        <>
          {create}
          {env.value === "live" && <LinkButton href={hrefTo("keys", { env: "test" })}>View test keys</LinkButton>}
        </>
      }
      command={`keyrack key create --project-id PROJECT --tenant-id TENANT --env ${env.value}`}
    >
      A key lets one of your customers call your API. You choose its scopes and limits, and can rotate or revoke it at
      any time.
    </Empty>
  );
}

type ListProps = {
  read: Read<RouteOutput<"GET /v1/keys">>;
  create: ComponentChildren;
  onLookUp: ((text: string) => void) | undefined;
};

function List({ read, create, onLookUp }: ListProps) {
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const { data: list } = read.state.value;
  const rows = list?.data ?? [];
  const hasOnePage = pageCursor() === undefined && !list?.has_more && !list?.next_cursor;
  const filters = filtersText();
  useEffect(() => setSelected(new Set()), [filters]);
  const projects = useProjects();
  const tenants = useTenants(rows.map(({ tenant_id }) => tenant_id));
  const Open = chosen && DIALOGS[chosen.action];
  return (
    <>
      <KeyFilters projects={projects} onLookUp={onLookUp} />
      <SelectionBar
        key={filters}
        chosen={selected}
        onChange={setSelected}
        all={hasOnePage ? null : bulkFilter()}
        allWords={isFiltered(KEY_FILTERS) ? "every key that matches" : `all ${env.value} keys`}
      />
      <Loaded read={read} rows={8}>
        {({ data, has_more, next_cursor = nextCursor({ data, has_more }) }) =>
          data.length === 0 && next_cursor === null ? (
            <NoKeys create={create} />
          ) : (
            <>
              <Table
                caption="Keys"
                columns={subjectFirst(columns({ projects, tenants }, setChosen))}
                rows={data}
                rowKey={({ id }) => id}
                selection={{
                  chosen: selected,
                  onChange: setSelected,
                  label: (id) => `Select ${labelOf(data.find((key) => key.id === id))}`,
                }}
              />
              <Pager next={next_cursor} shown={data.length} what="key" />
            </>
          )
        }
      </Loaded>
      {chosen && Open && <Open of={chosen.of} onClose={() => setChosen(null)} />}
    </>
  );
}

export function Keys() {
  const { button: create, dialog } = useCreate("Create key", CreateKey);
  const [pasted, setPasted] = useState<string | null>(null);
  const read = useRead("GET /v1/keys", { query: keysQuery() }, { keeps: true });
  const { data: list } = read.state.value;
  const isEmpty = list?.data.length === 0 && !list.next_cursor && !isFiltered(KEY_FILTERS);
  return (
    <Page
      title="Keys"
      actions={
        <>
          <Button needs="admin" onClick={() => setPasted("")}>
            Look up a key
          </Button>
          {!isEmpty && create}
        </>
      }
    >
      <List read={read} create={create} onLookUp={roleReason("admin") === null ? setPasted : undefined} />
      {pasted !== null && <LookUpKey text={pasted} onClose={() => setPasted(null)} />}
      {dialog}
    </Page>
  );
}
