// Claims a server that has no owner yet, with the link that the server printed.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { isInvalidToken, toProblem } from "../api/problems.ts";
import { useRead } from "../api/query.ts";
import { session } from "../api/session.ts";
import { adopt } from "../api/sign-in.ts";
import { WorkspaceFields } from "../forms/common-fields.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Snippet } from "../components/snippet.tsx";
import { go } from "../routes.ts";
import { Card, LogInButton, LogInLink } from "./card.tsx";
import { EmailField, NewPasswordField } from "./fields.tsx";
import { Ready, type Made } from "./ready.tsx";
import { SLUG_MIN, slugOf } from "../../../kernel/slugs.ts";

function Command() {
  return <Snippet code="keyrack setup link" name="command" />;
}

/** For a server without an owner, to those who come without a link. */
export function SetupHint() {
  return (
    <Card title="Set up this server">
      <p>
        This server has no owner yet. Open the setup link that it printed when it started, or print a new one there:
      </p>
      <Command />
      <p>The link works once, for an hour. The person who opens it becomes the owner.</p>
      <LogInLink />
    </Card>
  );
}

function Stale() {
  return (
    <Card key="stale" title="This setup link has expired or was already used" tone="bad">
      <p>A setup link works once and for an hour. Print a new one on the server:</p>
      <Command />
      <LogInLink />
    </Card>
  );
}

function Claimed() {
  return (
    <Card key="claimed" title="Setup is closed">
      <p>
        This server has an owner already, or its operator has turned setup off. Log in with your account, or ask a
        colleague for an invitation.
      </p>
      <LogInButton />
    </Card>
  );
}

/** For a person who is logged in, as after a reload of the page with the first keys. */
function ToStart() {
  useEffect(() => go("#/", { replace: true }), []);
  return null;
}

function SetupForm({ send }: { send: (values: Values) => Promise<void> }) {
  return (
    <Form submit="Create workspace" send={send}>
      <EmailField />
      <NewPasswordField />
      <TextField name="name" label="Your name" autocomplete="name" optional />
      <WorkspaceFields prefix="workspace_" />
      <TextField name="project_name" label="Project name" value="My API" hint="The API that your keys are for." />
    </Form>
  );
}

export function Setup({ token }: { token: string }) {
  const [step, setStep] = useState<"form" | "stale" | "claimed">("form");
  const [made, setMade] = useState<Made | null>(null);
  const read = useRead("GET /v1/setup", {});
  const send = async (values: Values): Promise<void> => {
    const { email = "", password = "", name = "", workspace_name = "", workspace_slug = "" } = values;
    const project_name = values.project_name || "My API";
    const slug = slugOf(project_name);
    const body = {
      token,
      email,
      password,
      workspace_name,
      workspace_slug,
      project_name,
      project_slug: slug.length < SLUG_MIN ? "my-api" : slug,
      ...(name !== "" && { name }),
    };
    try {
      const created = await call("POST /v1/setup", { body }, { token: null });
      adopt(created.session, true);
      setMade(created);
    } catch (error) {
      const problem = toProblem(error);
      if (isInvalidToken(problem)) setStep("stale");
      else if (/already has an owner/.test(problem.message)) setStep("claimed");
      else throw error;
    }
  };
  if (made) return <Ready made={made} />;
  if (step === "stale") return <Stale />;
  if (step === "claimed") return <Claimed />;
  if (read.state.value.data?.open === false) return session.value ? <ToStart /> : <Claimed />;
  if (token === "") return <SetupHint />;
  return (
    <Card key="form" title="Set up this server">
      <p>You become its first owner. This creates your account, a workspace, a project and two test keys.</p>
      <Loaded read={read}>{() => <SetupForm send={send} />}</Loaded>
    </Card>
  );
}
