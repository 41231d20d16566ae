// The person's workspaces, and a form for a new one.
import { useMemo, useState } from "preact/hooks";
import { call, newIdempotencyKey } from "../api/call.ts";
import { roleName, session, type Membership } from "../api/session.ts";
import { logOut, refreshMe } from "../api/sign-in.ts";
import { WorkspaceFields } from "../forms/common-fields.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Button } from "../components/button.tsx";
import { Icon } from "../components/icon.tsx";
import { SecretDialog } from "../forms/secret.tsx";
import { go } from "../routes.ts";
import { Card } from "./card.tsx";

function NewWorkspace({ onCreated }: { onCreated: (slug: string, secret: string) => void }) {
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  const send = async (values: Values): Promise<void> => {
    const body = { name: values.name ?? "", slug: values.slug ?? "", env: "test" as const };
    const created = await call("POST /v1/workspaces", { body, idempotencyKey });
    await refreshMe();
    onCreated(created.workspace.slug, created.secret_key.key);
  };
  return (
    <Form label="Create a workspace" submit="Create workspace" send={send}>
      <WorkspaceFields />
    </Form>
  );
}

function Memberships({ of }: { of: readonly Membership[] }) {
  return (
    <ul class="workspaces">
      {of.map(({ workspace_id, name, slug, role }) => (
        <li key={workspace_id}>
          <a href={`#/w/${slug}/live/home`}>
            <span class="workspace-mark" data-letter={[...name][0]?.toUpperCase()} aria-hidden="true" />
            <span class="grow">
              <bdi>{name}</bdi>
              <span class="muted small">{roleName(role)}</span>
            </span>
            <Icon name="right" />
          </a>
        </li>
      ))}
    </ul>
  );
}

type WorkspacesProps = {
  /** Why the one in the address is not shown. */
  note?: string;
  onRetry?: () => void;
};

export function Workspaces({ note, onRetry }: WorkspacesProps) {
  const [created, setCreated] = useState<{ slug: string; secret: string } | null>(null);
  const memberships = session.value?.memberships ?? [];
  const isFirst = memberships.length === 0;
  return (
    <Card title="Choose a workspace">
      {note && <p role="status">{note}</p>}
      {onRetry && (
        <div class="buttons">
          <Button onClick={onRetry}>Try again</Button>
        </div>
      )}
      {isFirst && !note && <p>You are not in a workspace yet. Create one, or ask its owner for an invitation.</p>}
      <Memberships of={memberships} />
      {note ? (
        // On a page of its own: this one gives way when a workspace of this address appears, with the new secret.
        <p class="after">
          <a href="#/workspaces">Create a workspace</a>
        </p>
      ) : (
        <details class="more" open={isFirst}>
          <summary>Create a workspace</summary>
          <NewWorkspace onCreated={(slug, secret) => setCreated({ slug, secret })} />
        </details>
      )}
      <p class="after">
        <button type="button" class="link" onClick={logOut}>
          Log out
        </button>
      </p>
      {created && (
        <SecretDialog
          secret={created.secret}
          variable="KEYRACK_SECRET_KEY"
          env="test"
          onDone={() => go(`#/w/${created.slug}/test/home`)}
        >
          <p>It is the workspace's first secret key, for test data. Your backend uses it to call Keyrack.</p>
        </SecretDialog>
      )}
    </Card>
  );
}
