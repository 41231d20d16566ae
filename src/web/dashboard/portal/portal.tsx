// The embedded portal: where it may be shown, how it looks, and the code that embeds it.
import { useState } from "preact/hooks";
import { Combobox } from "../forms/combobox.tsx";
import { CheckField, SelectField, type Option } from "../forms/field.tsx";
import { env, hrefTo, serverUrl } from "../links.ts";
import { useRead } from "../api/query.ts";
import {
  searchTenants,
  useProjectsRead,
  useTenants,
  type Project,
  type Tenant,
  type Suggestion,
} from "../api/records.ts";
import { LinkButton } from "../components/button.tsx";
import { Empty } from "../components/empty.tsx";
import { Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { SnippetTabs } from "../components/snippet.tsx";
import { ColourFields } from "./colour-fields.tsx";
import { Origins } from "./origins.tsx";
import { Preview, type Look } from "./preview.tsx";
import { portalSnippets } from "./snippets.ts";

const THEMES: readonly Option[] = [
  ["light", "Light"],
  ["dark", "Dark"],
];
const LOCALES: readonly Option[] = [
  ["en", "English"],
  ["de", "German"],
];

/** The portal starts in the theme of the dashboard. */
const currentTheme = (): string => document.documentElement.dataset.theme ?? "light";

type ControlsProps = {
  projects: readonly Project[];
  project: Project;
  setProject: (id: string) => void;
  tenant: Suggestion | null;
  setTenant: (tenant: Suggestion | null) => void;
  look: Look;
  setLook: (look: Look) => void;
};

function Controls({ projects, project, setProject, tenant, setTenant, look, setLook }: ControlsProps) {
  return (
    <div class="preview-controls">
      <SelectField
        name="project"
        label="Project"
        options={projects.map(({ id, name }) => [id, name] as const)}
        value={project.id}
        onChange={setProject}
      />
      <Combobox
        name="tenant"
        label="Tenant"
        placeholder="Sample data"
        optional
        chosen={tenant}
        onChoose={setTenant}
        search={searchTenants}
      />
      <SelectField
        name="theme"
        label="Theme"
        options={THEMES}
        value={look.theme}
        onChange={(value) => setLook({ ...look, theme: value })}
      />
      <SelectField
        name="locale"
        label="Language"
        options={LOCALES}
        value={look.locale}
        onChange={(value) => setLook({ ...look, locale: value })}
      />
      <CheckField
        label="May change keys"
        checked={look.mayChange}
        onChange={(mayChange) => setLook({ ...look, mayChange })}
      />
    </div>
  );
}

type PreviewProps = { project: Project; look: Look };

function SamplePreview({ project, look, note }: PreviewProps & { note: string }) {
  return (
    <>
      <p class="warning">{note}</p>
      <Preview subject={{ project, tenant: null, env: env.value }} look={look} />
    </>
  );
}

/** Sample data never appears under the tenant's name: it would be taken for the tenant's keys. */
function TenantPreview({ project, look, tenant }: PreviewProps & { tenant: Tenant }) {
  const of = { project_id: project.id, tenant_id: tenant.id, env: env.value };
  const read = useRead("GET /v1/keys", { query: { ...of, include_revoked: "true", limit: 1 } });
  return (
    <Loaded read={read}>
      {({ data }) =>
        data.length > 0 ? (
          <Preview subject={{ project, tenant, env: env.value }} look={look} />
        ) : (
          <SamplePreview
            {...{ project, look }}
            note={`This tenant has no ${env.value} keys in this project. What you see is sample data.`}
          />
        )
      }
    </Loaded>
  );
}

function Workbench({ projects, first }: { projects: readonly Project[]; first: Project }) {
  const [projectId, setProject] = useState(first.id);
  const [chosen, setTenant] = useState<Suggestion | null>(null);
  const [look, setLook] = useState<Look>({ theme: currentTheme(), locale: "en", colours: {}, mayChange: true });
  const tenant = useTenants(chosen ? [chosen.id] : []).get(chosen?.id ?? "") ?? null;
  const project = projects.find(({ id }) => id === projectId) ?? first;
  return (
    <>
      <Origins />
      <Panel title="Embed it">
        <SnippetTabs label="Embed it" snippets={portalSnippets(serverUrl(), project.id, env.value, look.colours)} />
      </Panel>
      <Panel title="Preview">
        <Controls {...{ projects, project, setProject, tenant: chosen, setTenant, look, setLook }} />
        <ColourFields theme={look.theme} colours={look.colours} onChange={(colours) => setLook({ ...look, colours })} />
        {tenant ? (
          <TenantPreview {...{ project, look, tenant }} />
        ) : (
          <SamplePreview {...{ project, look }} note="Sample data. Choose a tenant to see its keys." />
        )}
        <p class="muted small">Nothing that you press here changes anything.</p>
      </Panel>
    </>
  );
}

export function PortalPage() {
  const read = useProjectsRead();
  return (
    <Page title="Portal" lead="Your customers manage their own keys, inside your application.">
      <Loaded read={read}>
        {(projects) =>
          projects[0] ? (
            <Workbench projects={projects} first={projects[0]} />
          ) : (
            <>
              <Empty
                icon="portal"
                title="No projects yet"
                action={<LinkButton href={hrefTo("projects", { query: { create: "1" } })}>Create project</LinkButton>}
                command='keyrack project create --name "My API" --slug my-api'
              >
                The portal shows the keys of one project. Create a project first.
              </Empty>
              <Origins />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
