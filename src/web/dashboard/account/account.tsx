// The person's own account: name, address, password, sessions, and how this browser behaves.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { session, setSession } from "../api/session.ts";
import { NewPasswordField } from "../sign-in/fields.tsx";
import { ActionButton } from "../forms/action.tsx";
import { PasswordField, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Badge } from "../components/badge.tsx";
import { Page, Panel } from "../components/page.tsx";
import { toast } from "../shell/toasts.tsx";
import { BrowserSettings } from "./browser-settings.tsx";
import { Sessions } from "./sessions.tsx";

async function rename({ name = "" }: Values): Promise<void> {
  const user = await call("PATCH /v1/auth/me", { body: { name: name === "" ? null : name } });
  const current = session.value;
  if (current) setSession({ ...current, user: { ...current.user, name: user.name } });
  toast("Name saved.");
}

async function changePassword({ current_password = "", password = "" }: Values): Promise<void> {
  await call("POST /v1/auth/me/password", { body: { current_password, password } });
  refreshReads("/v1/auth/sessions");
  toast("Password changed. Your other sessions have ended.");
}

async function resend(): Promise<void> {
  await call("POST /v1/auth/email_verifications", { body: {} });
  toast("Email sent. Open its link to verify your address.");
}

function Person() {
  const user = session.value?.user;
  if (!user) return null;
  return (
    <Panel title="You">
      <p>
        <bdi>{user.email}</bdi>{" "}
        <Badge tone={user.email_verified ? "good" : "warn"}>{user.email_verified ? "Verified" : "Not verified"}</Badge>
      </p>
      {!user.email_verified && (
        <div class="buttons">
          <ActionButton send={resend}>Resend email</ActionButton>
        </div>
      )}
      <Form submit="Save" label="Your name" send={rename}>
        <TextField name="name" label="Your name" autocomplete="name" optional value={user.name ?? ""} />
      </Form>
    </Panel>
  );
}

/** Starts with empty fields again after each change. */
function Password() {
  const [changes, setChanges] = useState(0);
  const send = async (values: Values): Promise<void> => {
    await changePassword(values);
    setChanges(changes + 1);
  };
  return (
    <Panel title="Security">
      <Form key={changes} submit="Change password" submitKind="plain" label="Password" send={send}>
        <PasswordField name="current_password" label="Current password" autocomplete="current-password" />
        <NewPasswordField label="New password" note="Your other sessions end." />
      </Form>
    </Panel>
  );
}

export function Account() {
  return (
    <Page title="Account">
      <div class="two-columns">
        <div>
          <Person />
          <Password />
        </div>
        <BrowserSettings />
      </div>
      <Sessions />
    </Page>
  );
}
