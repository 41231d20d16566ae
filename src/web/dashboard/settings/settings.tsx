// The workspace's own settings.
import { useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call } from "../api/call.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { refreshMe } from "../api/sign-in.ts";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { changesOf } from "../keys/policy-change.ts";
import { roleReason } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Time } from "../components/time.tsx";
import { toast } from "../shell/toasts.tsx";

type Workspace = RouteOutput<"GET /v1/workspace">;

function WorkspaceForm({ of }: { of: Workspace }) {
  // As the fields show it: others may have changed it since.
  const [before, setBefore] = useState(of);
  const save = async ({ name = "", billing_email = "" }: Values): Promise<void> => {
    const body = changesOf(before, { name, billing_email: billing_email || null });
    setBefore({ ...before, ...(await call("PATCH /v1/workspace", { body })) });
    refreshReads("/v1/workspace");
    void refreshMe().catch(() => {});
    toast("Workspace saved.");
  };
  const refused = roleReason("admin");
  const readOnly = refused !== null;
  return (
    <Form submit="Save" send={save} disabled={refused}>
      <TextField
        name="name"
        label="Workspace name"
        autocomplete="organization"
        value={before.name}
        readOnly={readOnly}
      />
      <TextField
        name="billing_email"
        label="Billing email"
        type="email"
        autocomplete="email"
        optional
        readOnly={readOnly}
        value={before.billing_email ?? ""}
        hint="Gets mail about leaked and expiring keys when no owner or admin can."
      />
    </Form>
  );
}

export function Settings() {
  const read = useRead("GET /v1/workspace", {});
  return (
    <Page title="Settings">
      <Loaded read={read}>
        {(workspace) => (
          <div class="two-columns">
            <Panel title="Workspace">
              <WorkspaceForm of={workspace} />
            </Panel>
            <Panel title="Details">
              <Facts
                facts={{
                  Slug: <CopyText text={workspace.slug} name="Copy slug" />,
                  Id: <CopyText text={workspace.id} name="Copy id" />,
                  Created: <Time at={workspace.created_at} />,
                }}
              />
            </Panel>
          </div>
        )}
      </Loaded>
    </Page>
  );
}
