// Accepting an invitation, signing up or logging in on the way. The mailed link itself verifies the address it was sent
// to; with any other address the person verifies first and then goes on here.
import { call, Refused, Session } from "../api.ts";
import { h } from "../dom.ts";
import { choice } from "../components/choice.ts";
import { field, type Field } from "../components/field.ts";
import { form } from "../components/form.ts";
import { show, text } from "../components/page.ts";
import { isStale, stalePage } from "./invalid-link.ts";
import { emailField, loginForm, newPasswordField } from "./login.ts";

const ROLES: Record<string, string> = { owner: "an owner", admin: "an admin", member: "a member" };

export function invitePage(token: string): void {
  startPage(token, "new");
}

type Way = "new" | "known";

function startPage(token: string, way: Way, address = "", note?: string): void {
  const room = h("div", {});
  const go = (session: Session): Promise<void> => accept(token, session);
  const taken = (email: string): void =>
    startPage(token, "known", email, "This address has an account with another password. Log in with that one.");
  let email = emailField();
  const turn = (next: Way): void => {
    const typed = email.value() || address;
    email = emailField();
    email.set(typed);
    room.replaceChildren(
      next === "new"
        ? signUpForm(email, go, taken)
        : loginForm({ label: "Log in", submit: "Log in and accept", email, loggedIn: go }),
    );
  };
  turn(way);
  show(
    { title: note ? "Log in to accept" : "Accept your invitation" },
    text(note ?? "You are invited to a workspace on this server. You need an account here to join it."),
    choice(
      "How to go on",
      [
        ["new", "I am new here"],
        ["known", "I have an account"],
      ],
      way,
      turn,
    ),
    room,
  );
}

function signUpForm(
  email: Field,
  loggedIn: (session: Session) => Promise<void>,
  taken: (email: string) => void,
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
      await call("POST /v1/auth/users", { body: person });
      const session = await Session.open(address, secret).catch((error: unknown) => {
        if (error instanceof Refused && error.code === "invalid_credentials") return null;
        throw error;
      });
      if (session) await loggedIn(session);
      else taken(address);
    },
  });
}

function accept(token: string, session: Session): Promise<void> {
  return join(token, session).catch((error: unknown) => {
    if (!(error instanceof Refused && error.code === "email_unverified")) throw error;
    unverifiedPage(token, session);
  });
}

/** Accepts, and ends the session unless the person may try again with it. */
async function join(token: string, session: Session): Promise<void> {
  try {
    const { workspace_id, role } = await call("POST /v1/auth/invites/accept", { body: { token } }, session);
    const me = await call("GET /v1/auth/me", {}, session);
    void session.end();
    const workspace = me.memberships.find((membership) => membership.workspace_id === workspace_id);
    joinedPage(workspace?.name ?? "the workspace", role, me.user.email);
  } catch (error) {
    if (!(error instanceof Refused) || error.code === "email_unverified") throw error;
    if (isStale(error)) expiredPage();
    else if (error.code === "conflict") refusedPage(error.message);
    else if (error.status === 401) startPage(token, "known", session.user.email, "Please log in once more.");
    else throw error;
    void session.end();
  }
}

function joinedPage(workspace: string, role: string, email: string): void {
  show(
    { title: `Welcome to ${workspace}`, tone: "good" },
    text(`${email} is now ${ROLES[role] ?? role} of this workspace.`),
    text("There is nothing more to do here. You can close this page."),
  );
}

function unverifiedPage(token: string, session: Session): void {
  const { email } = session.user;
  const said = text();
  said.setAttribute("role", "status");
  const again = h("button", { type: "button" }, "Send the message again");
  again.addEventListener("click", () => {
    call("POST /v1/auth/email_verifications", { body: {} }, session).then(
      () => said.replaceChildren(`Sent to ${email}.`),
      () => said.replaceChildren("It could not be sent. Try again in a moment."),
    );
  });
  const notYet = ({ code }: Refused): boolean => {
    if (code === "email_unverified") said.replaceChildren(`${email} is not verified yet.`);
    return code === "email_unverified";
  };
  show(
    { title: "One step more: verify your address" },
    text(`A message to ${email} holds a link. Open it, then come back to this page and go on.`),
    form({ fields: [], submit: "I have verified it", send: () => join(token, session), refused: notYet }),
    h("div", { class: "buttons" }, again),
    said,
  );
}

function expiredPage(): void {
  stalePage(
    text("An invitation works once, for 7 days, and can be taken back."),
    text("Ask the person who invited you for a new one. Your account is kept."),
  );
}

function refusedPage(reason: string): void {
  const known = /already a member/.test(reason);
  show(
    { title: known ? "You are already a member" : "This did not work", tone: known ? "good" : "bad" },
    text(known ? "Your role in the workspace stays as it is. You can close this page." : reason),
  );
}
