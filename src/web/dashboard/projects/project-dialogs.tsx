// Dialogs that create, change and delete a project.
import { call } from "../api/call.ts";
import type { Project } from "../api/records.ts";
import { KeysThatStop } from "../records/keys-that-stop.tsx";
import { NameAndSlugFields } from "../forms/common-fields.tsx";
import { TextField } from "../forms/field.tsx";
import { CreateDialog, DeleteDialog, EditDialog } from "../records/dialogs.tsx";
import { changesOf } from "../keys/policy-change.ts";
import { DefaultLimitsField, defaultLimitsOf } from "./default-limits.tsx";
import { KeyRulesFields, keyRulesOf } from "./key-rules.tsx";

type CreateProps = { onClose: () => void; onCreated?: (project: Project) => void };

export function CreateProject({ onClose, onCreated }: CreateProps) {
  return (
    <CreateDialog
      what="project"
      lead="A project is one API whose keys you manage. Its keys exist in live and in test."
      send={async (values, idempotencyKey) => {
        const { name = "", slug = "" } = values;
        const body = { name, slug, default_rate_limits: defaultLimitsOf(values) };
        return call("POST /v1/projects", { body, idempotencyKey });
      }}
      onCreated={onCreated}
      onClose={onClose}
    >
      <NameAndSlugFields
        name="name"
        slug="slug"
        nameLabel="Name"
        slugLabel="Slug"
        hint="A short name for scripts and logs. It cannot change."
      />
      <DefaultLimitsField />
    </CreateDialog>
  );
}

type DialogProps = { of: Project; onClose: () => void };

export function EditProject({ of, onClose }: DialogProps) {
  return (
    <EditDialog<Project>
      what="project"
      of={of}
      save={async (values) => {
        const { name = "", key_prefix = of.key_prefix } = values;
        const rules = { default_rate_limits: defaultLimitsOf(values), ...keyRulesOf(values, of) };
        const body = changesOf(of, { name, key_prefix, ...rules });
        return call("PATCH /v1/projects/{id}", { params: { id: of.id }, body });
      }}
      nodeFields={["default_rate_limits"]}
      projects={() => [of.id]}
      onClose={onClose}
    >
      <TextField name="name" label="Name" value={of.name} />
      <TextField
        name="key_prefix"
        label="Key prefix"
        mono
        value={of.key_prefix}
        hint="How new keys begin, such as acme. Existing keys keep theirs. It belongs to your workspace forever."
      />
      <DefaultLimitsField value={of.default_rate_limits} />
      <KeyRulesFields project={of} />
    </EditDialog>
  );
}

export function DeleteProject({ of, onClose }: DialogProps) {
  return (
    <DeleteDialog
      what="project"
      name={of.name}
      typed={of.slug}
      send={() => call("DELETE /v1/projects/{id}", { params: { id: of.id } })}
      onClose={onClose}
    >
      <KeysThatStop of={{ project_id: of.id }} />
    </DeleteDialog>
  );
}
