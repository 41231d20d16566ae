// The page of one project: its defaults, and code that verifies its keys.
import { POLL_MS, useRead } from "../api/query.ts";
import type { Project } from "../api/records.ts";
import { useDialogs } from "../records/use-dialogs.tsx";
import { env, hrefTo, serverUrl } from "../links.ts";
import { Recent } from "../home/recent.tsx";
import { FleetSummary } from "../fleet/summary.tsx";
import { Button, LinkButton } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Panel } from "../components/page.tsx";
import { RecordPage } from "../records/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { SnippetTabs } from "../components/snippet.tsx";
import { Time } from "../components/time.tsx";
import { formatNumber } from "../../shared/format.ts";
import { DefaultLimits } from "./default-limits.tsx";
import { KeyRules } from "./key-rules.tsx";
import { DeleteProject, EditProject } from "./project-dialogs.tsx";
import { verifierSnippets } from "./snippets.ts";

function Nodes({ project }: { project: Project }) {
  const query = { view: "fleet" as const, project_id: project.id, env: env.value, limit: 1 };
  const read = useRead("GET /v1/nodes", { query }, { everyMs: POLL_MS.usual });
  return (
    <Panel
      title="Nodes"
      actions={
        <LinkButton kind="quiet" href={hrefTo("fleet", { query: { project: project.id } })}>
          View nodes
        </LinkButton>
      }
    >
      <Loaded read={read} rows={1}>
        {({ counts }) => <>{counts && <FleetSummary counts={counts} />}</>}
      </Loaded>
    </Panel>
  );
}

function Details({ project }: { project: Project }) {
  return (
    <div class="two-columns">
      <div>
        <Panel title="Verify keys">
          <p>
            Your API verifies keys in its own process. It needs a secret key of the {env.value} environment in{" "}
            <code>KEYRACK_SECRET_KEY</code>; create one under <a href={hrefTo("developers")}>Developers</a>.
          </p>
          <SnippetTabs tabParam="code" label="Framework" snippets={verifierSnippets(serverUrl(), project.id)} />
        </Panel>
        <Nodes project={project} />
        <Recent target={project.id} title="Changes" />
      </div>
      <div>
        <Panel title="Details">
          <Facts
            facts={{
              Slug: <code>{project.slug}</code>,
              Id: <CopyText text={project.id} name="Copy id" />,
              "Key prefix": <code>{project.key_prefix}_</code>,
              "Policy version": formatNumber(project.policy_version),
              Created: <Time at={project.created_at} />,
              Updated: <Time at={project.updated_at} />,
            }}
          />
        </Panel>
        <Panel title="Default rate limits">
          <DefaultLimits rules={project.default_rate_limits} />
        </Panel>
        <Panel title="Keys">
          <KeyRules project={project} />
        </Panel>
      </div>
    </div>
  );
}

function Actions({ of }: { of: Project }) {
  const { open, dialog } = useDialogs({ edit: EditProject, delete: DeleteProject });
  return (
    <>
      <Button needs="admin" onClick={() => open("edit", of)}>
        Edit
      </Button>
      <Button needs="admin" onClick={() => open("delete", of)}>
        Delete project
      </Button>
      {dialog}
    </>
  );
}

export function ProjectPage({ id }: { id: string }) {
  const read = useRead("GET /v1/projects/{id}", { params: { id } });
  return (
    <RecordPage read={read} type="Project" title={({ name }) => name} actions={(of) => <Actions of={of} />}>
      {(of) => <Details project={of} />}
    </RecordPage>
  );
}
