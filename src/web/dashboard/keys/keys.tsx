// The list of keys.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { useRead, type Read } from "../api/query.ts";
import { env, hrefTo, param, setParams } from "../links.ts";
import { Chips } from "../components/badge.tsx";
import { Button, LinkButton, roleReason } from "../components/button.tsx";
import { isFiltered } from "../forms/filters.tsx";
import { useCreate, useDialogs } from "../records/use-dialogs.tsx";
import { Empty } from "../components/empty.tsx";
import { Menu } from "../components/menu.tsx";
import { Page } from "../components/page.tsx";
import { pageCursor } from "../components/pager.tsx";
import { isEmptyList, List } from "../records/list.tsx";
import type { Column } from "../components/table.tsx";
import { CreateKey } from "./create.tsx";
import { bulkFilter, filtersText, KEY_FILTERS, KeyFilters, keysQuery } from "./filters.tsx";
import { DIALOGS } from "./key.tsx";
import { keyColumn, projectCell, RecordLink, timeColumns } from "./key-name.tsx";
import { LookUpKey } from "./lookup.tsx";
import { keyTitle, tenantLabel, useProjects, useTenants, type Project, type Tenant } from "../api/records.ts";
import { place } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { SelectionBar, useBulk, useSelection } from "../bulk/selection.tsx";
import { StateBadge } from "./state-badge.tsx";
import { endedReason, rotateReason, type ApiKey } from "./state.ts";

type Names = { projects: readonly Project[]; tenants: ReadonlyMap<string, Tenant> };
type Choose = (action: keyof typeof DIALOGS, of: ApiKey) => void;

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
  const choose = (action: keyof typeof DIALOGS) => () => onChoose(action, of);
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
  return [
    keyColumn,
    { head: "Tenant", cell: tenantCell },
    { head: "Project", room: 780, cell: projectCell(projects), fold: projectCell(projects) },
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

type KeyListProps = {
  read: Read<RouteOutput<"GET /v1/keys">>;
  create: ComponentChildren;
  onLookUp: ((text: string) => void) | undefined;
};

function KeyList({ read, create, onLookUp }: KeyListProps) {
  const { open, dialog } = useDialogs(DIALOGS);
  const filters = filtersText();
  const { selected, whole, select, selectWhole, clear } = useSelection(filters);
  const bulk = useBulk(clear);
  const { data: list } = read.state.value;
  const rows = list?.data ?? [];
  const hasOnePage = pageCursor() === undefined && !list?.has_more && !list?.next_cursor;
  const all = hasOnePage ? null : bulkFilter();
  const ticked = whole && all !== null ? new Set([...selected, ...rows.map(({ id }) => id)]) : selected;
  const projects = useProjects();
  const tenants = useTenants(rows.map(({ tenant_id }) => tenant_id));
  return (
    <>
      <KeyFilters projects={projects} onLookUp={onLookUp} />
      {selected.size > 0 && (
        <SelectionBar
          chosen={selected}
          whole={whole}
          onWhole={selectWhole}
          onClear={clear}
          all={all}
          allWords={isFiltered(KEY_FILTERS) ? "every key that matches" : `all ${env.value} keys`}
          onAct={bulk.act}
        />
      )}
      <List
        read={read}
        caption="Keys"
        columns={subjectFirst(columns({ projects, tenants }, open))}
        what="key"
        filters={KEY_FILTERS}
        empty={<NoKeys create={create} />}
        onNoMatch={
          param("state") === "" && (
            <Button onClick={() => setParams({ state: "all", after: null })}>Include revoked keys</Button>
          )
        }
        selection={{
          chosen: ticked,
          onChange: select,
          label: (id) => `Select ${labelOf(rows.find((key) => key.id === id))}`,
        }}
      />
      {dialog}
      {bulk.dialog}
    </>
  );
}

export function Keys() {
  const { button: create, dialog } = useCreate("Create key", CreateKey);
  const [pasted, setPasted] = useState<string | null>(null);
  const at = place.value;
  // Back leads to other filters of this page.
  useEffect(() => setPasted(null), [at]);
  const read = useRead("GET /v1/keys", { query: keysQuery() }, { keeps: true });
  return (
    <Page
      title="Keys"
      actions={
        <>
          <Button needs="admin" onClick={() => setPasted("")}>
            Look up a key
          </Button>
          {!isEmptyList(read, KEY_FILTERS) && create}
        </>
      }
    >
      <KeyList read={read} create={create} onLookUp={roleReason("admin") === null ? setPasted : undefined} />
      {pasted !== null && <LookUpKey text={pasted} onClose={() => setPasted(null)} />}
      {dialog}
    </Page>
  );
}
