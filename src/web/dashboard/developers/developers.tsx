// Secret keys, and what a developer needs to call the API.
import type { ComponentChildren } from "preact";
import type { RouteOutput } from "../../../client.ts";
import { useRead, type Read } from "../api/query.ts";
import { membership } from "../api/session.ts";
import { keyTitle, useProjectsRead, type SecretKey } from "../api/records.ts";
import { useCreate, useDialogs } from "../records/use-dialogs.tsx";
import { env, hrefTo, serverUrl } from "../links.ts";
import { KeyName, timeColumns } from "../keys/key-name.tsx";
import { endedReason } from "../keys/state.ts";
import { StateBadge } from "../keys/state-badge.tsx";
import { Badge, Chips } from "../components/badge.tsx";
import { roleReason } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Empty } from "../components/empty.tsx";
import { Menu } from "../components/menu.tsx";
import { Facts, Page, Panel } from "../components/page.tsx";
import { pageCursor, pageSize } from "../components/pager.tsx";
import { isEmptyList, List } from "../records/list.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { SnippetTabs } from "../components/snippet.tsx";
import type { Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import { CreateSecretKey, RevokeSecretKey, RotateSecretKey } from "./secret-key-dialogs.tsx";
import { apiSnippets } from "./snippets.ts";

/** Ids that are listed; the page of projects has the others. */
const PROJECTS_MAX = 10;
const DIALOGS = { rotate: RotateSecretKey, revoke: RevokeSecretKey } as const;
const envName = ({ env: of }: SecretKey): string => (of === "test" ? "Test" : "Live");

function columns(open: (action: keyof typeof DIALOGS, of: SecretKey) => void): Column<SecretKey>[] {
  const menu = (of: SecretKey) => {
    const disabled = roleReason("admin") ?? endedReason(of);
    return [
      [{ label: "Rotate", disabled, onSelect: () => open("rotate", of) }],
      [{ label: "Revoke", disabled, danger: true, onSelect: () => open("revoke", of) }],
    ];
  };
  return [
    {
      head: "Key",
      names: true,
      cell: (key) => <KeyName of={key} />,
    },
    {
      head: "Environment",
      room: 560,
      cell: (key) => <Badge tone={key.env === "test" ? "warn" : "good"}>{envName(key)}</Badge>,
      fold: envName,
    },
    { head: "State", cell: (key) => <StateBadge of={key} /> },
    {
      head: "Permissions",
      cell: ({ permissions }) => (permissions === null ? "Everything" : <Chips values={permissions} max={4} />),
    },
    ...timeColumns(780),
    {
      head: "Actions",
      actions: true,
      cell: (key) => <Menu label={`Actions for ${keyTitle(key)}`} groups={menu(key)} />,
    },
  ];
}

type SecretKeysProps = { read: Read<RouteOutput<"GET /v1/secret_keys">>; create: ComponentChildren };

function SecretKeys({ read, create }: SecretKeysProps) {
  const { open, dialog } = useDialogs(DIALOGS);
  return (
    <Panel title="Secret keys">
      <List
        read={read}
        caption="Secret keys"
        columns={columns(open)}
        what="secret key"
        empty={
          <Empty
            icon="key"
            title="No secret keys"
            action={create}
            command={`keyrack secret-key create --env ${env.value}`}
          >
            A secret key lets your backend verify keys and manage this workspace.
          </Empty>
        }
      />
      {dialog}
    </Panel>
  );
}

function ProjectIds() {
  return (
    <Loaded read={useProjectsRead()} rows={2}>
      {(projects) => (
        <div class="stack">
          {projects.length === 0 && "None"}
          {projects.slice(0, PROJECTS_MAX).map(({ id, name }) => (
            <div key={id}>
              <UserText>{name}</UserText> <CopyText text={id} name={`Copy id of ${name}`} />
            </div>
          ))}
          {projects.length > PROJECTS_MAX && <a href={hrefTo("projects")}>All projects</a>}
        </div>
      )}
    </Loaded>
  );
}

export function Developers() {
  const { button: create, dialog } = useCreate("Create secret key", CreateSecretKey);
  const read = useRead("GET /v1/secret_keys", { query: { after: pageCursor(), limit: pageSize() } });
  const url = serverUrl();
  return (
    <Page title="Developers" lead="What your backend needs to call Keyrack." actions={!isEmptyList(read) && create}>
      <SecretKeys read={read} create={create} />
      <div class="two-columns">
        <Panel title="Call the API">
          <SnippetTabs tabParam="code" label="Call the API" snippets={apiSnippets(url, env.value)} />
        </Panel>
        <Panel title="Addresses and ids">
          <Facts
            facts={{
              "Base URL": <CopyText text={url} name="Copy base URL" />,
              Workspace: <CopyText text={membership.value?.workspace_id ?? ""} name="Copy workspace id" />,
              Projects: <ProjectIds />,
              OpenAPI: (
                <a href="./openapi.json" target="_blank" rel="noopener">
                  openapi.json
                </a>
              ),
            }}
          />
        </Panel>
      </div>
      {dialog}
    </Page>
  );
}
