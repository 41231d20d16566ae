// The list of keys.
import { useEffect, useState } from "preact/hooks";
import type { RouteInput } from "../../../client.ts";
import { useRead } from "../api/query.ts";
import { env, hrefTo, param, setParams } from "../here.ts";
import { Chips } from "../parts/badge.tsx";
import { Button, roleReason } from "../parts/button.tsx";
import { Empty, NoMatch } from "../parts/empty.tsx";
import { Menu } from "../parts/menu.tsx";
import { Page } from "../parts/page.tsx";
import { pageCursor, Pager, pageSize } from "../parts/pager.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { UserText } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { CreateKey } from "./create.tsx";
import { tenantLabel, useProjects, useTenants, type Project, type Tenant } from "./records.ts";
import { RevokeKey } from "./revoke.tsx";
import { RotateKey } from "./rotate.tsx";
import { StateBadge } from "./state-badge.tsx";
import { keyTitle, type ApiKey } from "./state.ts";

type Query = NonNullable<RouteInput<"GET /v1/keys">["query"]>;
type Chosen = { of: ApiKey; action: "rotate" | "revoke" };

function filters(): Query {
  const [project_id, tenant_id, after] = [param("project"), param("tenant"), pageCursor()];
  return {
    env: env.value,
    limit: pageSize(),
    ...(project_id !== "" && { project_id }),
    ...(tenant_id !== "" && { tenant_id }),
    ...(param("state") === "all" && { include_revoked: "true" as const }),
    ...(after !== undefined && { after }),
  };
}

const isFiltered = (): boolean => ["project", "tenant", "state", "after"].some((name) => param(name) !== "");
const clear = (): void => setParams({ project: null, tenant: null, state: null, after: null });

function Filters({ projects }: { projects: readonly Project[] }) {
  const choose = (name: string) => (event: Event) =>
    setParams({ [name]: (event.currentTarget as HTMLSelectElement).value, after: null });
  return (
    <div class="filters" role="search" aria-label="Filter keys">
      <select aria-label="Filter by project" onChange={choose("project")}>
        <option value="">All projects</option>
        {projects.map(({ id, name }) => (
          <option key={id} value={id} selected={id === param("project")}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="Filter by state" onChange={choose("state")}>
        <option value="">Not revoked</option>
        <option value="all" selected={param("state") === "all"}>
          All, with revoked
        </option>
      </select>
      {isFiltered() && (
        <Button kind="quiet" onClick={clear}>
          Clear filters
        </Button>
      )}
    </div>
  );
}

type Names = { projects: readonly Project[]; tenants: ReadonlyMap<string, Tenant> };

function columns({ projects, tenants }: Names, onChoose: (chosen: Chosen) => void): Column<ApiKey>[] {
  const tenantCell = ({ tenant_id }: ApiKey) => {
    const tenant = tenants.get(tenant_id);
    return tenant ? <UserText>{tenantLabel(tenant)}</UserText> : <code class="muted">{tenant_id.slice(0, 8)}</code>;
  };
  const menu = (of: ApiKey) => {
    const disabled = roleReason("admin") ?? (of.revoked_at === null ? null : "The key is revoked.");
    return [
      [{ label: "Open", href: hrefTo("keys", { id: of.id }) }],
      [
        { label: "Rotate", disabled, onSelect: () => onChoose({ of, action: "rotate" }) },
        { label: "Revoke", disabled, danger: true, onSelect: () => onChoose({ of, action: "revoke" }) },
      ],
    ];
  };
  return [
    {
      head: "Key",
      names: true,
      cell: (key) => (
        <a href={hrefTo("keys", { id: key.id })}>
          {key.name !== null && <UserText>{key.name}</UserText>}
          <code class={key.name === null ? "" : "under"}>{key.display_prefix}…</code>
        </a>
      ),
    },
    { head: "Tenant", cell: tenantCell },
    { head: "Project", cell: ({ project_id }) => projects.find(({ id }) => id === project_id)?.name ?? "Deleted" },
    { head: "State", cell: (key) => <StateBadge of={key} /> },
    { head: "Scopes", cell: ({ scopes }) => <Chips values={scopes} max={1} /> },
    { head: "Last used", cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    { head: "Expires", cell: ({ expires_at }) => <Time at={expires_at} /> },
    { head: "Created", cell: ({ created_at }) => <Time at={created_at} /> },
    {
      head: "Actions",
      actions: true,
      cell: (key) => <Menu label={`Actions for ${keyTitle(key)}`} groups={menu(key)} />,
    },
  ];
}

function NoKeys({ onCreate }: { onCreate: () => void }) {
  if (isFiltered()) return <NoMatch what="keys" onClear={clear} />;
  return (
    <Empty
      icon="key"
      title={`No ${env.value} keys yet`}
      action={
        <Button kind="primary" icon="plus" needs="admin" onClick={onCreate}>
          Create key
        </Button>
      }
      command={`keyrack key create --project-id PROJECT --tenant-id TENANT --env ${env.value}`}
    >
      A key lets one of your customers call your API. You choose its scopes and limits, and can rotate or revoke it at
      any time.
    </Empty>
  );
}

function List({ onCreate }: { onCreate: () => void }) {
  const read = useRead("GET /v1/keys", { query: filters() });
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const rows = read.answer.value.data?.data ?? [];
  const projects = useProjects();
  const tenants = useTenants(rows.map(({ tenant_id }) => tenant_id));
  const Open = chosen?.action === "rotate" ? RotateKey : RevokeKey;
  return (
    <>
      <Filters projects={projects} />
      <Loaded read={read} rows={8}>
        {({ data, has_more }) =>
          data.length === 0 ? (
            <NoKeys onCreate={onCreate} />
          ) : (
            <>
              <Table
                caption="Keys"
                columns={columns({ projects, tenants }, setChosen)}
                rows={data}
                rowKey={({ id }) => id}
              />
              <Pager next={has_more ? (data.at(-1)?.id ?? null) : null} shown={data.length} what="keys" />
            </>
          )
        }
      </Loaded>
      {chosen && <Open of={chosen.of} onClose={() => setChosen(null)} />}
    </>
  );
}

export function Keys() {
  const [creating, setCreating] = useState(false);
  const asked = param("create") !== "";
  useEffect(() => {
    if (!asked) return;
    setCreating(true);
    setParams({ create: null }, { replace: true });
  }, [asked]);
  const create = (): void => setCreating(true);
  return (
    <Page
      title="Keys"
      actions={
        <Button kind="primary" icon="plus" needs="admin" onClick={create}>
          Create key
        </Button>
      }
    >
      <List onCreate={create} />
      {creating && <CreateKey onClose={() => setCreating(false)} />}
    </Page>
  );
}
