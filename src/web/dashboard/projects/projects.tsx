// The list of projects.
import { useRead } from "../api/query.ts";
import type { Project } from "../api/records.ts";
import { hrefTo } from "../here.ts";
import { ruleText } from "../keys/limits.ts";
import { Button } from "../parts/button.tsx";
import { useCreating } from "../forms/creating.ts";
import { Empty } from "../parts/empty.tsx";
import { Page } from "../parts/page.tsx";
import { nextCursor, pageCursor, Pager, pageSize } from "../parts/pager.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { UserText } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { CreateProject } from "./project-dialogs.tsx";

const COLUMNS: readonly Column<Project>[] = [
  {
    head: "Name",
    names: true,
    cell: ({ id, name }) => (
      <a href={hrefTo("projects", { id })}>
        <UserText>{name}</UserText>
      </a>
    ),
  },
  { head: "Slug", cell: ({ slug }) => <code>{slug}</code> },
  {
    head: "Default limits",
    cell: ({ default_rate_limits: [first, ...more] }) =>
      first ? (
        `${ruleText(first)}${more.length > 0 ? ` and ${more.length} more` : ""}`
      ) : (
        <span class="muted">None</span>
      ),
  },
  { head: "Created", cell: ({ created_at }) => <Time at={created_at} /> },
];

export function Projects() {
  const after = pageCursor();
  const read = useRead("GET /v1/projects", { query: { after, limit: pageSize() } });
  const [creating, setCreating] = useCreating();
  const create = (
    <Button kind="primary" icon="plus" needs="admin" onClick={() => setCreating(true)}>
      Create project
    </Button>
  );
  const isEmpty = read.state.value.data?.data.length === 0 && after === undefined;
  return (
    <Page title="Projects" lead="The APIs whose keys you manage." actions={!isEmpty && create}>
      <Loaded read={read}>
        {(list) =>
          isEmpty ? (
            <Empty
              icon="project"
              title="No projects yet"
              action={create}
              command='keyrack project create --name "My API" --slug my-api'
            >
              A project is one API of yours. Keys, their rate limits and the nodes that verify them belong to it.
            </Empty>
          ) : (
            <>
              <Table caption="Projects" columns={COLUMNS} rows={list.data} rowKey={({ id }) => id} />
              {(list.has_more || after !== undefined) && (
                <Pager next={nextCursor(list)} shown={list.data.length} what="project" />
              )}
            </>
          )
        }
      </Loaded>
      {creating && <CreateProject onClose={() => setCreating(false)} />}
    </Page>
  );
}
