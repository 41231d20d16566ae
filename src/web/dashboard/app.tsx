// Chooses the page for the address.
import { useEffect } from "preact/hooks";
// First, so that nothing divides the pages of a workspace: gzip refers back 32 kB at most. 1 kB less than by name.
import { OpenWorkspace } from "./open-workspace.tsx";
import { PAGES } from "./pages.tsx";
import { Account } from "./account/account.tsx";
import { useRead } from "./api/query.ts";
import { discards, lock, session, workspaceId } from "./api/session.ts";
import { openWorkspace } from "./api/sign-in.ts";
import { Frame } from "./shell/frame.tsx";
import { LoginAgain } from "./shell/login-again.tsx";
import { MovedDialog } from "./shell/workspace-switched.tsx";
import { Card } from "./sign-in/card.tsx";
import { Forgot } from "./sign-in/forgot.tsx";
import { MissingToken } from "./sign-in/invalid-link.tsx";
import { Invite } from "./sign-in/invite.tsx";
import { LogIn } from "./sign-in/login.tsx";
import { Reset } from "./sign-in/reset.tsx";
import { Setup, SetupHint } from "./sign-in/setup.tsx";
import { SignUp } from "./sign-in/sign-up.tsx";
import { Verify } from "./sign-in/verify.tsx";
import { Workspaces } from "./sign-in/workspaces.tsx";
import { envOf, hrefTo } from "./links.ts";
import { Waiting } from "./components/skeleton.tsx";
import { go, place, type SignInPage } from "./routes.ts";

function NotFound() {
  return (
    <Card title="This page does not exist">
      <p>The address may be mistyped, or the page may have moved.</p>
      <p class="after">
        <a href="#/">Go to the start page</a>
      </p>
    </Card>
  );
}

/** Where a signed-in person starts: the workspace of their session, or the choice. */
function Start() {
  const { memberships = [], workspaceId: active = null } = session.value ?? {};
  const first = memberships.find(({ workspace_id }) => workspace_id === active) ?? memberships[0];
  const chooses = !first || (memberships.length > 1 && active === null);
  useEffect(
    () =>
      go(chooses ? "#/workspaces" : hrefTo("home", { slug: first.slug, env: envOf(first.slug) }), { replace: true }),
    [],
  );
  return null;
}

/** A server without an owner says how to set it up. */
function SignedOutStart() {
  const { data, problem } = useRead("GET /v1/setup", {}).state.value;
  if (!data && !problem) return <Waiting />;
  return data?.open ? <SetupHint /> : <LogIn />;
}

/** Belongs to no workspace; the navigation leads back to the one that was open. */
function AccountPage() {
  const { memberships = [], workspaceId: active = null } = session.value ?? {};
  const last = memberships.find(({ workspace_id }) => workspace_id === (workspaceId.value ?? active));
  useEffect(() => {
    if (last && workspaceId.value === null) void openWorkspace(last.workspace_id).catch(() => {});
  }, [last?.workspace_id]);
  return (
    <Frame items={last ? PAGES : []} hasEnv={false}>
      <Account />
    </Frame>
  );
}

const TOKEN_PAGES = { verify: Verify, reset: Reset, invite: Invite } as const;

function SignIn({ page, token }: { page: SignInPage; token: string }) {
  if (page === "login") return session.value ? <Start /> : <LogIn />;
  if (page === "signup") return <SignUp />;
  if (page === "forgot") return <Forgot />;
  const needsSession = page === "workspaces" || page === "account";
  if (needsSession && !session.value) return <LogIn />;
  if (page === "workspaces") return <Workspaces />;
  if (page === "account") return <AccountPage />;
  // Also after it has made a session: it then shows the new keys.
  if (page === "setup") return <Setup key={token} token={token} />;
  const Show = TOKEN_PAGES[page];
  return token === "" ? <MissingToken /> : <Show key={token} token={token} />;
}

function Current() {
  const at = place.value;
  if (at.kind === "unknown") return <NotFound />;
  if (at.kind === "sign-in") return <SignIn key={at.page} page={at.page} token={at.token} />;
  if (!session.value) return at.kind === "start" ? <SignedOutStart /> : <LogIn />;
  return at.kind === "start" ? <Start /> : <OpenWorkspace at={at} />;
}

export function App() {
  const signedIn = session.value !== null;
  const at = place.value;
  // The page of an invitation shows nothing of the person whom a login there replaces, and has more to say after it.
  const isInvite = at.kind === "sign-in" && at.page === "invite";
  return (
    <>
      <div hidden={signedIn && lock.value === "idle"}>
        <Current key={isInvite ? at.page : discards.value} />
      </div>
      {signedIn && (
        <>
          <LoginAgain />
          <MovedDialog />
        </>
      )}
    </>
  );
}
