// The list of projects.
import { useRead } from "../api/query.ts";
import type { Project } from "../api/records.ts";
import { hrefTo } from "../links.ts";
import { ruleText } from "../keys/limits.ts";
import { useCreate } from "../records/use-dialogs.tsx";
import { Empty } from "../components/empty.tsx";
import { Page } from "../components/page.tsx";
import { pageCursor, pageSize } from "../components/pager.tsx";
import { isEmptyList, List } from "../records/list.tsx";
import type { Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
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
  const read = useRead("GET /v1/projects", { query: { after: pageCursor(), limit: pageSize() } });
  const { button: create, dialog } = useCreate("Create project", CreateProject);
  return (
    <Page title="Projects" lead="The APIs whose keys you manage." actions={!isEmptyList(read) && create}>
      <List
        read={read}
        caption="Projects"
        columns={COLUMNS}
        what="project"
        empty={
          <Empty
            icon="project"
            title="No projects yet"
            action={create}
            command='keyrack project create --name "My API" --slug my-api'
          >
            A project is one API of yours. Keys, their rate limits and the nodes that verify them belong to it.
          </Empty>
        }
      />
      {dialog}
    </Page>
  );
}
