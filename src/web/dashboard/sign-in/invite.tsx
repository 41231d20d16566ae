// Accepts an invitation, with sign-up or login on the way. The mailed link verifies the address it was sent to; a
// person who uses another address verifies that one first. Afterwards the person is signed in and arrives in the
// workspace.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { isInvalidToken, Problem, toProblem } from "../api/problems.ts";
import { useRead } from "../api/query.ts";
import { session, type NewSession } from "../api/session.ts";
import { refreshMe, replaceSession } from "../api/sign-in.ts";
import { Choice, TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { go } from "../routes.ts";
import { toast } from "../shell/toasts.tsx";
import { Card } from "./card.tsx";
import { CurrentPasswordField, NewPasswordField } from "./fields.tsx";
import { ExpiredLink } from "./invalid-link.tsx";
import { NoMail } from "./mail.tsx";
import { VerifyFirst } from "./verify-first.tsx";

const ROLES: Record<string, string> = { owner: "an owner", admin: "an admin", member: "a member" };

const MODES = [
  ["signup", "I'm new here"],
  ["login", "I have an account"],
] as const;
type Mode = (typeof MODES)[number][0];
type Step =
  | { name: "start"; mode: Mode; email?: string; note?: string }
  | { name: "unverified" }
  | { name: "expired" }
  | { name: "member" }
  | { name: "refused"; reason: string };

const INVITED = "You have been invited to a workspace. Sign up or log in to join it.";
const INVITED_CLOSED =
  "You have been invited to a workspace. Log in to join it. If you have no account, ask the person who runs this server for one.";
const TAKEN = "You already have an account with this email address. Log in with its password.";
/** Where unverified people cannot log in, the refusal of a new account looks like a wrong password. */
const TAKEN_OR_UNVERIFIED =
  "First verify your email address with the link in our message to it. Then log in here. If you already had an account, log in with its password.";

async function open(email: string, password: string): Promise<NewSession> {
  return call("POST /v1/auth/sessions", { body: { email, password } }, { token: null });
}

const UNUSABLE =
  "You cannot sign up with this invitation. It is for another email address, or has expired or been withdrawn.";

/** With the invitation, which verifies its own address; another address may sign up only if everyone may. */
async function signUp(
  { email = "", password = "", name = "" }: Values,
  invite_token: string,
  isOpen: boolean,
): Promise<void> {
  const person = { email, password, ...(name !== "" && { name }) };
  try {
    await call("POST /v1/auth/users", { body: { ...person, invite_token } }, { token: null });
  } catch (error) {
    if (toProblem(error).code !== "invalid_token") throw error;
    if (!isOpen) throw new Problem(400, { message: UNUSABLE });
    await call("POST /v1/auth/users", { body: person }, { token: null });
  }
}

/** Joins the workspace with the session and opens it. */
async function join(token: string): Promise<void> {
  const { workspace_id, role } = await call("POST /v1/auth/invites/accept", { body: { token } });
  await refreshMe();
  const joined = session.value?.memberships.find((membership) => membership.workspace_id === workspace_id);
  toast(`Welcome to ${joined?.name ?? "the workspace"}. You are now ${ROLES[role] ?? role}.`);
  go(joined ? `#/w/${joined.slug}/live/home` : "#/");
}

/** What to show when joining was refused. */
function stepAfter(problem: Problem): Step | null {
  if (problem.code === "email_unverified") return { name: "unverified" };
  if (isInvalidToken(problem)) return { name: "expired" };
  if (problem.code !== "conflict") return null;
  return /already a member/.test(problem.message) ? { name: "member" } : { name: "refused", reason: problem.message };
}

function ForgotLink() {
  return (
    <p class="after">
      {/* In a new tab: the link's token exists only in this page. */}
      <a href="#/forgot" target="_blank" rel="noopener">
        Forgot your password?<span class="hide"> Opens in a new tab.</span>
      </a>
    </p>
  );
}

/** Joins with a new session, or shows why not. */
async function enter(created: NewSession, { token, onStep }: StartProps): Promise<void> {
  replaceSession(created);
  await join(token).catch((error: unknown) => {
    const next = stepAfter(toProblem(error));
    if (!next) throw error;
    onStep(next);
  });
}

type StartProps = { token: string; step: Step & { name: "start" }; onStep: (step: Step) => void };

function Start(props: StartProps) {
  const { token, step, onStep } = props;
  const [chosen, setMode] = useState(step.mode);
  const [email, setEmail] = useState(step.email ?? "");
  const setup = useRead("GET /v1/setup", {}).state.value.data;
  const signUpMode = setup?.sign_up ?? "open"; // a 0.1 server lacks the field
  const isClosed = signUpMode === "closed";
  const mode = isClosed ? "login" : chosen;
  const send = async (values: Values): Promise<void> => {
    const { email: typed = "", password = "" } = values;
    if (mode === "login") return enter(await open(typed, password), props);
    await signUp(values, token, signUpMode === "open");
    try {
      await enter(await open(typed, password), props);
    } catch (error) {
      if (toProblem(error).code !== "invalid_credentials") throw error;
      const note = setup?.unverified_login === "refuse" ? TAKEN_OR_UNVERIFIED : TAKEN;
      onStep({ name: "start", mode: "login", email: typed, note });
    }
  };
  const isNew = mode === "signup";
  return (
    <Card title={step.note ? "Log in to accept" : "Accept your invitation"}>
      <p>{step.note ?? (isClosed ? INVITED_CLOSED : INVITED)}</p>
      {step.note === TAKEN_OR_UNVERIFIED && <NoMail />}
      {!isClosed && <Choice legend="Do you have an account?" options={MODES} value={mode} onChange={setMode} />}
      <Form
        key={mode}
        label={isNew ? "Sign up" : "Log in"}
        submit={isNew ? "Sign up and accept" : "Log in and accept"}
        send={send}
      >
        <TextField name="email" label="Email" type="email" autocomplete="username" value={email} onInput={setEmail} />
        {isNew && <TextField name="name" label="Your name" autocomplete="name" optional />}
        {isNew ? <NewPasswordField /> : <CurrentPasswordField />}
      </Form>
      {!isNew && <ForgotLink />}
    </Card>
  );
}

export function Invite({ token }: { token: string }) {
  const [step, setStep] = useState<Step>({ name: "start", mode: "signup" });
  if (step.name === "start") return <Start key={step.note} token={token} step={step} onStep={setStep} />;
  if (step.name === "unverified")
    return <VerifyFirst onContinue={() => join(token)} onRefused={(problem) => setStep(stepAfter(problem) ?? step)} />;
  if (step.name === "expired")
    return (
      <ExpiredLink>
        <p>An invitation works once, expires after 7 days and can be withdrawn.</p>
        <p>Ask the person who invited you for a new one. Your account is kept.</p>
        <Onwards />
      </ExpiredLink>
    );
  if (step.name === "member")
    return (
      <Card key="member" title="You are already a member" tone="good">
        <p>Your role in the workspace has not changed.</p>
        <Onwards />
      </Card>
    );
  return (
    <Card key="refused" title="The invitation cannot be accepted" tone="bad">
      <p>{step.reason}</p>
      <Onwards />
    </Card>
  );
}

function Onwards() {
  return (
    <p class="after">
      <a href="#/workspaces">Your workspaces</a>
    </p>
  );
}
