// Accepts an invitation, with sign-up or log-in on the way. The mailed link verifies the address it was sent to; a person
// who uses another address verifies that one first.
import { h } from "../../shared/dom.ts";
import { ApiError, call, Session } from "../api.ts";
import { choice } from "../components/choice.ts";
import { field, type Field } from "../components/field.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { expiredLinkPage, isInvalidToken } from "./invalid-link.ts";
import { emailField, loginForm, newPasswordField } from "./login.ts";

const ROLES: Record<string, string> = { owner: "an owner", admin: "an admin", member: "a member" };

export function invitePage(token: string): void {
  startPage(token, "signup");
}

type Mode = "signup" | "login";

/** `note` replaces the introduction when the person has to log in after all. */
function startPage(token: string, mode: Mode, address = "", note?: string): void {
  const formArea = h("div", {});
  const onLogin = (session: Session): Promise<void> => accept(token, session);
  const onTaken = (email: string): void =>
    startPage(token, "login", email, "You already have an account with this email address. Log in with its password.");
  let email = emailField();
  const showForm = (next: Mode): void => {
    const typed = email.value() || address;
    email = emailField();
    email.set(typed);
    formArea.replaceChildren(
      next === "signup"
        ? signUpForm(token, email, onLogin, onTaken)
        : loginForm({ label: "Log in", submit: "Log in and accept", email, onLogin }),
    );
  };
  showForm(mode);
  show(
    { title: note ? "Log in to accept" : "Accept your invitation" },
    text(note ?? "You have been invited to a workspace on this server. To join it, you need an account here."),
    choice(
      "Do you have an account?",
      [
        ["signup", "I'm new here"],
        ["login", "I have an account"],
      ],
      mode,
      showForm,
    ),
    formArea,
  );
}

/** `onTaken`: the address has an account with another password. */
function signUpForm(
  invite_token: string,
  email: Field,
  onLogin: (session: Session) => Promise<void>,
  onTaken: (email: string) => void,
): HTMLFormElement {
  const name = field({ name: "name", label: "Your name", autocomplete: "name", optional: true });
  const password = newPasswordField("Password");
  return form({
    label: "Sign up",
    submit: "Sign up and accept",
    fields: [email, name, password],
    send: async () => {
      const [address, secret] = [email.value(), password.value()];
      const person = { email: address, password: secret, ...(name.value() !== "" && { name: name.value() }) };
      await signUp(person, invite_token);
      const session = await Session.open(address, secret).catch((error: unknown) => {
        if (error instanceof ApiError && error.code === "invalid_credentials") return null;
        throw error;
      });
      if (session) await onLogin(session);
      else onTaken(address);
    },
  });
}

type NewPerson = { email: string; password: string; name?: string };

/** With the invitation, which verifies its own address; another address may sign up only where everyone may. */
async function signUp(person: NewPerson, invite_token: string): Promise<void> {
  try {
    await call("POST /v1/auth/users", { body: { ...person, invite_token } });
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "invalid_token")) throw error;
    await call("POST /v1/auth/users", { body: person });
  }
}

function accept(token: string, session: Session): Promise<void> {
  return join(token, session).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.code === "email_unverified")) throw error;
    unverifiedPage(token, session);
  });
}

/** Accepts, and ends the session unless the person can retry with it. */
async function join(token: string, session: Session): Promise<void> {
  try {
    const { workspace_id, role } = await call("POST /v1/auth/invites/accept", { body: { token } }, session);
    const me = await call("GET /v1/auth/me", {}, session);
    void session.end();
    const workspace = me.memberships.find((membership) => membership.workspace_id === workspace_id);
    joinedPage(workspace?.name ?? "the workspace", role, me.user.email);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code === "email_unverified") throw error;
    if (isInvalidToken(error)) expiredPage();
    else if (error.code === "conflict") conflictPage(error.message);
    else if (error.status === 401) startPage(token, "login", session.user.email, "Please log in again.");
    else throw error;
    void session.end();
  }
}

function joinedPage(workspace: string, role: string, email: string): void {
  show(
    { title: `Welcome to ${workspace}`, tone: "good" },
    text(`${email} is now ${ROLES[role] ?? role} of this workspace.`),
    text("You can close this page."),
  );
}

function unverifiedPage(token: string, session: Session): void {
  const { email } = session.user;
  const status = text();
  status.setAttribute("role", "status");
  const resend = h("button", { type: "button" }, "Resend email");
  resend.addEventListener("click", () => {
    call("POST /v1/auth/email_verifications", { body: {} }, session).then(
      () => status.replaceChildren(`Email sent to ${email}.`),
      () => status.replaceChildren("The email could not be sent. Try again in a moment."),
    );
  });
  const onError = ({ code }: ApiError): boolean => {
    if (code === "email_unverified") status.replaceChildren(`${email} is not verified yet.`);
    return code === "email_unverified";
  };
  show(
    { title: "One more step: verify your email address" },
    text(`We sent a link to ${email}. Open it, then come back to this page and continue.`),
    form({ fields: [], submit: "Continue", send: () => join(token, session), onError }),
    h("div", { class: "buttons" }, resend),
    status,
  );
}

function expiredPage(): void {
  expiredLinkPage(
    text("An invitation works once, expires after 7 days and can be withdrawn."),
    text("Ask the person who invited you for a new one. Your account is kept."),
  );
}

function conflictPage(reason: string): void {
  const isMember = /already a member/.test(reason);
  show(
    {
      title: isMember ? "You are already a member" : "The invitation cannot be accepted",
      tone: isMember ? "good" : "bad",
    },
    text(isMember ? "Your role in the workspace has not changed. You can close this page." : reason),
  );
}
