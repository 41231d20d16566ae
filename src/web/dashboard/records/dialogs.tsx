// The dialogs that create, change and delete a record. Each has one frame for every type of record.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Env } from "../../../kernel/credentials.ts";
import { plural } from "../../shared/format.ts";
import { newIdempotencyKey } from "../api/call.ts";
import { refreshReads, type Read } from "../api/query.ts";
import { Dialog } from "../components/dialog.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { hasChanged } from "../keys/policy-change.ts";
import { PropagationDialog } from "../keys/propagation.tsx";
import { hrefTo } from "../links.ts";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { Confirm } from "../forms/confirm.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Warnings, type Warned } from "./warnings.tsx";

type What = "key" | "tenant" | "project" | "plan";

/** "Tenant", at the beginning of a sentence. */
const title = (what: What): string => what.charAt(0).toUpperCase() + what.slice(1);

/** The page of its list, which is also the name of its endpoints. */
const listOf = (what: What): string => `${what}s`;

type CreateDialogProps<T> = {
  what: What;
  /** What the record is for, in a sentence. */
  lead: string;
  children: ComponentChildren;
  send: (values: Values, idempotencyKey: string) => Promise<T>;
  /** What happens then; its page opens by default. */
  onCreated?: ((created: T) => void) | undefined;
  onClose: () => void;
};

export function CreateDialog<T extends { id: string }>(props: CreateDialogProps<T>) {
  const { what, lead, children, send, onClose } = props;
  const { onCreated = ({ id }) => go(hrefTo(listOf(what), { id })) } = props;
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const create = async (values: Values): Promise<void> => {
    const created = await send(values, idempotencyKey);
    refreshReads(`/v1/${listOf(what)}`);
    toast(`${title(what)} created.`);
    onClose();
    onCreated(created);
  };
  return (
    <Dialog title={`Create ${what}`} onClose={onClose} env="both">
      <p class="muted">{lead}</p>
      <Form submit={`Create ${what}`} send={create} onCancel={onClose}>
        {children}
      </Form>
    </Dialog>
  );
}

type EditDialogProps<T> = {
  what: What;
  /** As it was when the dialog opened. */
  of: T;
  env?: Env;
  lead?: ComponentChildren;
  children: ComponentChildren;
  /** What the fields depend on: they must not be sent without it. */
  needs?: Read<unknown>;
  save: (values: Values) => Promise<T & Warned>;
  /** The fields that nodes enforce. */
  nodeFields: readonly (keyof T)[];
  /** The projects whose nodes must learn of a change to those. */
  projects: () => readonly string[] | Promise<readonly string[]>;
  onClose: () => void;
};

/** Ends with the server's warnings, and with the nodes as they acknowledge the change, if they have to know it. */
export function EditDialog<T extends object>(props: EditDialogProps<T>) {
  const { what, of, env, lead, children, needs, save, nodeFields, projects, onClose } = props;
  const [saved, setSaved] = useState<{ after: Warned; projectIds: readonly string[] } | null>(null);
  const send = async (values: Values): Promise<void> => {
    const after = await save(values);
    refreshReads("/v1/");
    // It is saved, whether the projects can be read or not.
    const projectIds = hasChanged<T>(of, after, nodeFields) ? await Promise.resolve(projects()).catch(() => []) : [];
    const isDone = projectIds.length === 0 && !after.warnings;
    toast(`${title(what)} saved.`, isDone);
    if (isDone) onClose();
    else setSaved({ after, projectIds });
  };
  if (saved)
    return (
      <PropagationDialog title={`${title(what)} saved`} projectIds={saved.projectIds} env={env} onClose={onClose}>
        <Warnings of={saved.after} />
      </PropagationDialog>
    );
  const form = (
    <Form submit="Save" send={send} onCancel={onClose}>
      {children}
    </Form>
  );
  return (
    <Dialog title={`Edit ${what}`} onClose={onClose} env={env ?? "both"}>
      {lead}
      {needs ? <Loaded read={needs}>{() => form}</Loaded> : form}
    </Dialog>
  );
}

type DeleteDialogProps = {
  what: What;
  name: string;
  /** To be typed first, where other records end with it. */
  typed?: string;
  /** What else the deletion ends. */
  children: ComponentChildren;
  send: () => Promise<{ id: string; revoked_keys?: number }>;
  onClose: () => void;
};

export function DeleteDialog({ what, name, typed, children, send, onClose }: DeleteDialogProps) {
  const remove = async (): Promise<void> => {
    const { revoked_keys } = await send();
    onClose();
    go(hrefTo(listOf(what)), { replace: true });
    refreshReads("/v1/");
    toast(`${title(what)} deleted.${revoked_keys === undefined ? "" : ` ${plural(revoked_keys, "key")} revoked.`}`);
  };
  const words = `Delete ${what}`;
  return (
    <Confirm title={words} submit={words} send={remove} onClose={onClose} env="both" {...(typed && { typed })}>
      <p>
        The {what} <bdi>{name}</bdi> is deleted, in live and in test. This cannot be undone.
      </p>
      {children}
    </Confirm>
  );
}
