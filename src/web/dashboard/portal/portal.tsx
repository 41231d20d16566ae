// The embedded portal: where it may be shown, how it looks, and the code that embeds it.
import { useState } from "preact/hooks";
import { Combobox } from "../forms/combobox.tsx";
import { CheckField, SelectField, type Option } from "../forms/field.tsx";
import { env, hrefTo, param, serverUrl, setParams } from "../links.ts";
import { useRead } from "../api/query.ts";
import {
  searchTenants,
  tenantLabel,
  useProjectsRead,
  type Project,
  type Tenant,
  type Suggestion,
} from "../api/records.ts";
import { Button } from "../components/button.tsx";
import { Empty } from "../components/empty.tsx";
import { Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { SnippetTabs } from "../components/snippet.tsx";
import type { Colours } from "./colours.ts";
import { ColourFields } from "./colour-fields.tsx";
import { Origins } from "./origins.tsx";
import { LIST_MAX, Preview, type Look } from "./preview.tsx";
import { portalSnippets } from "./snippets.ts";
import { go } from "../routes.ts";

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

/** In the address, so that a colleague sees the same preview. */
const choose = (name: string) => (value: string) => setParams({ [name]: value }, { replace: true });

/** The value of `access` in the address if customers may not change keys. Without it they may. */
const READ_ONLY = "read";

type ControlsProps = { projects: readonly Project[]; project: Project; tenant: Suggestion | null; look: Look };

function Controls({ projects, project, tenant, look }: ControlsProps) {
  return (
    <div class="preview-controls">
      <SelectField
        name="project"
        label="Project"
        options={projects.map(({ id, name }) => [id, name] as const)}
        value={project.id}
        onChange={choose("project")}
      />
      <Combobox
        name="tenant"
        label="Tenant"
        placeholder="Sample data"
        optional
        chosen={tenant}
        onChoose={(chosen) => choose("tenant")(chosen?.id ?? "")}
        search={searchTenants}
      />
      <SelectField name="theme" label="Theme" options={THEMES} value={look.theme} onChange={choose("theme")} />
      <SelectField name="locale" label="Language" options={LOCALES} value={look.locale} onChange={choose("locale")} />
      <CheckField
        label="May change keys"
        checked={look.mayChange}
        onChange={(mayChange) => choose("access")(mayChange ? "" : READ_ONLY)}
      />
    </div>
  );
}

type PreviewProps = { project: Project; look: Look };

function SamplePreview({ project, look }: PreviewProps) {
  return <Preview subject={{ project, tenant: null, first: null, env: env.value }} look={look} />;
}

/** Sample data never appears under the tenant's name: it would be taken for the tenant's keys. */
function TenantPreview({ project, look, tenant }: PreviewProps & { tenant: Tenant }) {
  const of = { project_id: project.id, tenant_id: tenant.id, env: env.value };
  const read = useRead("GET /v1/keys", { query: { ...of, include_revoked: "false", limit: LIST_MAX } });
  return (
    <Loaded read={read}>
      {(first) =>
        first.data.length > 0 ? (
          <Preview subject={{ project, tenant, first, env: env.value }} look={look} />
        ) : (
          <>
            <p class="warning">This tenant has no {env.value} keys in this project. What you see is sample data.</p>
            <SamplePreview {...{ project, look }} />
          </>
        )
      }
    </Loaded>
  );
}

const optionOf = (options: readonly Option[], name: string): string | undefined =>
  options.find(([value]) => value === param(name))?.[0];

function Workbench({ projects, first }: { projects: readonly Project[]; first: Project }) {
  const [colours, setColours] = useState<Colours>({});
  const id = param("tenant");
  const read = useRead("GET /v1/tenants/{id}", { params: { id } }, { isNeeded: id !== "" });
  const { data: tenant } = read.state.value;
  const chosen = id === "" ? null : { id, label: tenant ? tenantLabel(tenant) : id };
  const project = projects.find(({ id }) => id === param("project")) ?? first;
  const look: Look = {
    theme: optionOf(THEMES, "theme") ?? currentTheme(),
    locale: optionOf(LOCALES, "locale") ?? "en",
    colours,
    mayChange: param("access") !== READ_ONLY,
  };
  return (
    <>
      <Panel title="Preview">
        <Controls {...{ projects, project, tenant: chosen, look }} />
        <ColourFields theme={look.theme} colours={colours} onChange={setColours} />
        <p class="muted small">
          {!chosen && "Sample data. Choose a tenant to see its keys. "}Nothing that you press here changes anything.
        </p>
        {chosen ? (
          <Loaded read={read}>{(found) => <TenantPreview {...{ project, look }} tenant={found} />}</Loaded>
        ) : (
          <SamplePreview {...{ project, look }} />
        )}
      </Panel>
      <Origins />
      <Panel title="Embed it">
        <SnippetTabs
          tabParam="code"
          label="Embed it"
          snippets={portalSnippets(serverUrl(), project.id, env.value, colours)}
        />
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
                action={
                  <Button needs="admin" onClick={() => go(hrefTo("projects", { query: { create: "1" } }))}>
                    Create project
                  </Button>
                }
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
