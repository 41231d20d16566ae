// Dialogs that create, change and delete a plan.
import { useMemo, useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { NameAndSlugFields } from "../forms/common-fields.tsx";
import { Confirm } from "../forms/confirm.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { hrefTo } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { changesOf, hasChanged } from "../keys/policy-change.ts";
import { PropagationDialog } from "../keys/propagation.tsx";
import { useProjects, type Plan } from "../api/records.ts";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { PlanFields, planOf } from "./plan-fields.tsx";

const SLUG_HINT = "A short name for scripts and logs.";

export function CreatePlan({ onClose }: { onClose: () => void }) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const body = { name: values.name ?? "", slug: values.slug ?? "", ...planOf(values) };
    const created = await call("POST /v1/plans", { body, idempotencyKey });
    refreshReads("/v1/plans");
    toast("Plan created.");
    onClose();
    go(hrefTo("plans", { id: created.id }));
  };
  return (
    <Dialog title="Create plan" onClose={onClose} env="both">
      <p class="muted">Limits and bounds that several of your customers share. Choose it on the page of a tenant.</p>
      <Form submit="Create plan" send={send} onCancel={onClose}>
        <NameAndSlugFields name="name" slug="slug" nameLabel="Name" slugLabel="Slug" hint={SLUG_HINT} />
        <PlanFields />
      </Form>
    </Dialog>
  );
}

type DialogProps = { plan: Plan; onClose: () => void };

const NODE_FIELDS = ["rate_limits", "scopes", "quotas"] as const;

export function EditPlan({ plan, onClose }: DialogProps) {
  // The record changes below the dialog.
  const [before] = useState(plan);
  const [saved, setSaved] = useState(false);
  const projects = useProjects().map(({ id }) => id);
  const send = async (values: Values): Promise<void> => {
    const body = changesOf(before, { name: values.name ?? "", slug: values.slug ?? "", ...planOf(values) });
    const after = await call("PATCH /v1/plans/{id}", { params: { id: plan.id }, body });
    refreshReads("/v1/");
    const isFollowed = plan.tenants > 0 && hasChanged<Plan>(before, after, NODE_FIELDS);
    toast("Plan saved.", !isFollowed);
    if (isFollowed) setSaved(true);
    else onClose();
  };
  if (saved) return <PropagationDialog title="Plan saved" projectIds={projects} onClose={onClose} />;
  return (
    <Dialog title="Edit plan" onClose={onClose} env="both">
      {plan.tenants > 0 && <p class="muted">Changes apply to {plural(plan.tenants, "tenant")} immediately.</p>}
      <Form submit="Save" send={send} onCancel={onClose}>
        <TextField name="name" label="Name" value={before.name} />
        <TextField name="slug" label="Slug" mono value={before.slug} hint={SLUG_HINT} />
        <PlanFields plan={before} />
      </Form>
    </Dialog>
  );
}

export function DeletePlan({ plan, onClose }: DialogProps) {
  const send = async (): Promise<void> => {
    await call("DELETE /v1/plans/{id}", { params: { id: plan.id } });
    onClose();
    go(hrefTo("plans"), { replace: true });
    refreshReads("/v1/plans");
    toast("Plan deleted.");
  };
  return (
    <Confirm title="Delete plan" submit="Delete plan" send={send} onClose={onClose} env="both">
      <p>
        The plan <bdi>{plan.name}</bdi> is deleted. No tenant uses it.
      </p>
    </Confirm>
  );
}
