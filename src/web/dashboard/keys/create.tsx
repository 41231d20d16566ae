// Creating a key: for a project and a tenant, in the environment on the screen. Ends with the one time it is shown.
import { useMemo, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { Combobox } from "../forms/combobox.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { env, hrefTo, param } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { SecretDialog } from "../forms/secret.tsx";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { ExpiryField, expiryOf, LimitsField, limitsOf, ScopesField, scopesOf } from "./key-fields.tsx";
import { CreateProject } from "../projects/project-dialogs.tsx";
import { CreateTenant } from "../tenants/tenant-dialogs.tsx";
import { Warnings } from "../records/warnings.tsx";
import { useInherited } from "./inherited.ts";
import {
  searchProjects,
  searchTenants,
  tenantLabel,
  useProjects,
  useTenantParam,
  type Project,
  type Suggestion,
} from "../api/records.ts";

/** `of`: its name, tenant and project. */
type Made = RouteOutput<"POST /v1/keys"> & { of: string };

function keyOf(values: Values) {
  const { name = "" } = values;
  const expires_at = expiryOf(values);
  return {
    scopes: scopesOf(values),
    rate_limits: limitsOf(values),
    ...(name !== "" && { name }),
    ...(expires_at !== undefined && { expires_at }),
  };
}

/** The project and the tenant that the list was filtered by when the dialog opened, or the only project. */
function useFiltered(projects: readonly Project[]): { project: Suggestion | null; tenant: Suggestion | null } {
  const [wanted] = useState(() => ({ project: param("project"), tenant: param("tenant") }));
  const project = projects.find(({ id }) => id === wanted.project) ?? (projects.length === 1 ? projects[0] : undefined);
  const { tenant, chosen } = useTenantParam(wanted.tenant);
  return { project: project ? { id: project.id, label: project.name } : null, tenant: tenant ? chosen : null };
}

/** What a key belongs to can be created in place. */
type Needed = "project" | "tenant";

type NeededFieldProps = {
  what: Needed;
  label: string;
  onNew: (what: Needed) => void;
} & Pick<Parameters<typeof Combobox>[0], "chosen" | "onChoose" | "search">;

function NeededField({ what, onNew, ...field }: NeededFieldProps) {
  const hint = (
    <button type="button" class="link" onClick={() => onNew(what)}>
      New {what}
    </button>
  );
  return <Combobox {...field} name={`${what}_id`} placeholder={`Choose a ${what}`} hint={hint} />;
}

type InPlaceProps = {
  what: Needed | null;
  onClose: () => void;
  setProject: (made: Suggestion) => void;
  setTenant: (made: Suggestion) => void;
};

/** Outside of the form: a form cannot be inside of another. */
function InPlace({ what, onClose, setProject, setTenant }: InPlaceProps) {
  if (what === "project")
    return (
      <CreateProject
        onClose={onClose}
        onCreated={({ id, name, slug }) => setProject({ id, label: name, hint: slug })}
      />
    );
  if (what === null) return null;
  return (
    <CreateTenant
      onClose={onClose}
      onCreated={(made) => setTenant({ id: made.id, label: tenantLabel(made), hint: made.external_id })}
    />
  );
}

function CreateForm({ onMade, onClose, tenant: given }: { onMade: (made: Made) => void } & CreateKeyProps) {
  const projects = useProjects();
  const preset = useFiltered(projects);
  const [pickedProject, setProject] = useState<Suggestion | null>();
  const [pickedTenant, setTenant] = useState<Suggestion | null | undefined>(given);
  const [adding, setAdding] = useState<Needed | null>(null);
  const project = pickedProject === undefined ? preset.project : pickedProject;
  const tenant = pickedTenant === undefined ? preset.tenant : pickedTenant;
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const target = { project_id: project?.id ?? "", tenant_id: tenant?.id ?? "", env: env.value };
    const made = await call("POST /v1/keys", { body: { ...target, ...keyOf(values) }, idempotencyKey });
    refreshReads("/v1/keys");
    onMade({ ...made, of: [made.name, tenant?.label, project?.label].filter(Boolean).join(" · ") });
  };
  const found = projects.find(({ id }) => id === project?.id);
  const inherited = useInherited(found, tenant?.id);
  return (
    <>
      <p class="muted">
        The key will admit requests to your API in the <strong>{env.value}</strong> environment.
      </p>
      <Form submit="Create key" send={send} onCancel={onClose}>
        <NeededField
          what="project"
          label="Project"
          chosen={project}
          onChoose={setProject}
          search={searchProjects}
          onNew={setAdding}
        />
        <NeededField
          what="tenant"
          label="Tenant"
          chosen={tenant}
          onChoose={setTenant}
          search={searchTenants}
          onNew={setAdding}
        />
        <TextField name="name" label="Name" optional hint="What the key is for, such as Production." />
        <ScopesField project={found} />
        <ExpiryField policy={found?.key_policy} />
        <LimitsField inherited={inherited} />
      </Form>
      <InPlace what={adding} onClose={() => setAdding(null)} {...{ setProject, setTenant }} />
    </>
  );
}

type CreateKeyProps = { onClose: () => void; tenant?: Suggestion };

export function CreateKey(props: CreateKeyProps) {
  const [made, setMade] = useState<Made | null>(null);
  if (made)
    return (
      <SecretDialog
        secret={made.key}
        variable="API_KEY"
        env={env.value}
        onDone={() => {
          props.onClose();
          toast("Key created.");
          go(hrefTo("keys", { id: made.id }));
        }}
      >
        <p>
          Give it to your customer. <bdi class="muted">{made.of}</bdi>
        </p>
        <Warnings of={made} />
      </SecretDialog>
    );
  return (
    <Dialog title="Create key" onClose={props.onClose} env={env.value}>
      <CreateForm {...props} onMade={setMade} />
    </Dialog>
  );
}
