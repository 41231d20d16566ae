// Dialogs that create, change and delete a plan.
import { plural } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { useProjectsRead, type Plan } from "../api/records.ts";
import { NameAndSlugFields } from "../forms/common-fields.tsx";
import { TextField } from "../forms/field.tsx";
import { CreateDialog, DeleteDialog, EditDialog } from "../records/dialogs.tsx";
import { changesOf } from "../keys/policy-change.ts";
import { PlanFields, planOf } from "./plan-fields.tsx";

const SLUG_HINT = "A short name for scripts and logs.";

export function CreatePlan({ onClose }: { onClose: () => void }) {
  return (
    <CreateDialog
      what="plan"
      lead="Limits and bounds that several of your customers share. Choose it on the page of a tenant."
      send={(values, idempotencyKey) => {
        const body = { name: values.name ?? "", slug: values.slug ?? "", ...planOf(values) };
        return call("POST /v1/plans", { body, idempotencyKey });
      }}
      onClose={onClose}
    >
      <NameAndSlugFields name="name" slug="slug" nameLabel="Name" slugLabel="Slug" hint={SLUG_HINT} />
      <PlanFields />
    </CreateDialog>
  );
}

type DialogProps = { of: Plan; onClose: () => void };

export function EditPlan({ of, onClose }: DialogProps) {
  const read = useProjectsRead();
  const projects = (read.state.value.data ?? []).map(({ id }) => id);
  return (
    <EditDialog
      what="plan"
      of={of}
      lead={of.tenants > 0 && <p class="muted">Changes apply to {plural(of.tenants, "tenant")} immediately.</p>}
      save={(values) => {
        const body = changesOf(of, { name: values.name ?? "", slug: values.slug ?? "", ...planOf(values) });
        return call("PATCH /v1/plans/{id}", { params: { id: of.id }, body });
      }}
      nodeFields={["rate_limits", "scopes", "quotas"]}
      needs={read}
      projects={() => (of.tenants > 0 ? projects : [])}
      onClose={onClose}
    >
      <TextField name="name" label="Name" value={of.name} />
      <TextField name="slug" label="Slug" mono value={of.slug} hint={SLUG_HINT} />
      <PlanFields plan={of} />
    </EditDialog>
  );
}

export function DeletePlan({ of, onClose }: DialogProps) {
  return (
    <DeleteDialog
      what="plan"
      name={of.name}
      send={() => call("DELETE /v1/plans/{id}", { params: { id: of.id } })}
      onClose={onClose}
    >
      <p>No tenant uses it.</p>
    </DeleteDialog>
  );
}
