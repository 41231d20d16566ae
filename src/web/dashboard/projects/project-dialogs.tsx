// Dialogs that create, change and delete a project.
import { useMemo, useState } from "preact/hooks";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import type { Project } from "../api/records.ts";
import { NameAndSlugFields } from "../forms/common-fields.tsx";
import { Confirm } from "../forms/confirm.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { hrefTo } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { changesOf, hasChanged } from "../keys/policy-change.ts";
import { PropagationDialog } from "../keys/propagation.tsx";
import { KeysThatStop } from "../components/keys-that-stop.tsx";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { plural } from "../../shared/format.ts";
import { DefaultLimitsField, defaultLimitsOf } from "./default-limits.tsx";
import { KeyRulesFields, keyRulesOf } from "./key-rules.tsx";

type CreateProps = {
  onClose: () => void;
  /** What happens then; its page opens by default. */
  onCreated?: (project: Project) => void;
};

const openProject = ({ id }: Project): void => go(hrefTo("projects", { id }));

export function CreateProject({ onClose, onCreated = openProject }: CreateProps) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const default_rate_limits = defaultLimitsOf(values);
    const body = { name: values.name ?? "", slug: values.slug ?? "", default_rate_limits };
    const created = await call("POST /v1/projects", { body, idempotencyKey });
    refreshReads("/v1/projects");
    toast("Project created.");
    onClose();
    onCreated(created);
  };
  return (
    <Dialog title="Create project" onClose={onClose} env="both">
      <p class="muted">A project is one API whose keys you manage. Its keys exist in live and in test.</p>
      <Form submit="Create project" send={send} onCancel={onClose}>
        <NameAndSlugFields
          name="name"
          slug="slug"
          nameLabel="Name"
          slugLabel="Slug"
          hint="A short name for scripts and logs. It cannot change."
        />
        <DefaultLimitsField />
      </Form>
    </Dialog>
  );
}

const NODE_FIELDS = ["default_rate_limits"] as const;

export function EditProject({ project, onClose }: { project: Project; onClose: () => void }) {
  // The record changes below the dialog.
  const [before] = useState(project);
  const [saved, setSaved] = useState(false);
  const send = async (values: Values): Promise<void> => {
    const default_rate_limits = defaultLimitsOf(values);
    const { name = "", key_prefix = before.key_prefix } = values;
    const body = changesOf(before, { name, key_prefix, default_rate_limits, ...keyRulesOf(values, before) });
    const { warnings = [], ...after } = await call("PATCH /v1/projects/{id}", { params: { id: project.id }, body });
    refreshReads("/v1/projects");
    const isFollowed = hasChanged<Project>(before, after, NODE_FIELDS);
    toast("Project saved.", !isFollowed);
    for (const { message } of warnings) toast(`${message}.`);
    if (isFollowed) setSaved(true);
    else onClose();
  };
  if (saved) return <PropagationDialog title="Project saved" projectIds={[project.id]} onClose={onClose} />;
  return (
    <Dialog title="Edit project" onClose={onClose} env="both">
      <Form submit="Save" send={send} onCancel={onClose}>
        <TextField name="name" label="Name" value={project.name} />
        <TextField
          name="key_prefix"
          label="Key prefix"
          mono
          value={project.key_prefix}
          hint="How new keys begin, such as acme. Existing keys keep theirs. It belongs to your workspace forever."
        />
        <DefaultLimitsField value={project.default_rate_limits} />
        <KeyRulesFields project={project} />
      </Form>
    </Dialog>
  );
}

export function DeleteProject({ project, onClose }: { project: Project; onClose: () => void }) {
  const send = async (): Promise<void> => {
    const deleted = await call("DELETE /v1/projects/{id}", { params: { id: project.id } });
    onClose();
    go(hrefTo("projects"), { replace: true });
    refreshReads("/v1/");
    toast(`Project deleted. ${plural(deleted.revoked_keys, "key")} revoked.`);
  };
  return (
    <Confirm
      title="Delete project"
      submit="Delete project"
      typed={project.slug}
      send={send}
      onClose={onClose}
      env="both"
    >
      <p>
        The project <bdi>{project.name}</bdi> is deleted, in live and in test. This cannot be undone.
      </p>
      <KeysThatStop of={{ project_id: project.id }} />
    </Confirm>
  );
}
