// Chooses the page for the address, and sees to it that the session and the workspace are the right ones first.
import { useEffect, useState } from "preact/hooks";
import { problemMessage, toProblem } from "./api/problems.ts";
import { useRead } from "./api/query.ts";
import { lock, membership, session, workspaceId } from "./api/session.ts";
import { openWorkspace, refreshMe } from "./api/sign-in.ts";
import { Account } from "./account/account.tsx";
import { Card } from "./enter/card.tsx";
import { Forgot } from "./enter/forgot.tsx";
import { MissingToken } from "./enter/invalid-link.tsx";
import { Invite } from "./enter/invite.tsx";
import { LogIn } from "./enter/log-in.tsx";
import { Reset } from "./enter/reset.tsx";
import { Setup, SetupHint } from "./enter/setup.tsx";
import { SignUp } from "./enter/sign-up.tsx";
import { Verify } from "./enter/verify.tsx";
import { Workspaces } from "./enter/workspaces.tsx";
import { knownPages } from "./here.ts";
import { PAGES } from "./pages.tsx";
import { Page } from "./parts/page.tsx";
import { go, place, type EnterPage, type Place } from "./routes.ts";
import { Frame } from "./shell/frame.tsx";
import { LoginAgain } from "./shell/login-again.tsx";
import { MovedDialog } from "./shell/moved.tsx";

for (const { page } of PAGES) knownPages.add(page);

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
  useEffect(() => go(chooses ? "#/workspaces" : `#/w/${first.slug}/live/home`, { replace: true }), []);
  return null;
}

/** A server without an owner says how to set it up. */
function SignedOutStart() {
  const { data, problem } = useRead("GET /v1/setup", {}).answer.value;
  if (!data && !problem) return null;
  return data?.open ? <SetupHint /> : <LogIn />;
}

function WorkspacePage({ at }: { at: Place & { kind: "workspace" } }) {
  const target = PAGES.find(({ page }) => page === at.page);
  const record = at.id !== null && target?.ShowRecord ? { Show: target.ShowRecord, id: at.id } : null;
  const exists = target && (at.id === null || record);
  return (
    <Frame items={PAGES} hasEnv={target?.hasEnv ?? false}>
      {!exists && <Page title="This page does not exist" lead="Choose one from the navigation." />}
      {exists && !record && <target.Show key={`${at.page} ${at.env}`} />}
      {record && <record.Show key={`${record.id} ${at.env}`} id={record.id} />}
    </Frame>
  );
}

/** Switches the session to the workspace in the address, then shows the page. */
function Inside({ at }: { at: Place & { kind: "workspace" } }) {
  const [refused, setRefused] = useState("");
  const wanted = session.value?.memberships.find(({ slug }) => slug === at.slug);
  useEffect(() => {
    setRefused("");
    const open = async (): Promise<void> => {
      if (!wanted) await refreshMe();
      const found = session.value?.memberships.find(({ slug }) => slug === at.slug);
      if (found) await openWorkspace(found.workspace_id);
      else setRefused("You are not a member of this workspace.");
    };
    open().catch((error: unknown) => setRefused(problemMessage(toProblem(error))));
  }, [at.slug, wanted?.workspace_id]);
  if (refused !== "") return <Workspaces note={refused} />;
  const isOpen = wanted !== undefined && workspaceId.value === wanted.workspace_id && membership.value !== null;
  return isOpen ? <WorkspacePage at={at} /> : null;
}

const TOKEN_PAGES = { verify: Verify, reset: Reset, invite: Invite } as const;
const OPEN_PAGES = { login: LogIn, signup: SignUp, forgot: Forgot } as const;

function Enter({ page, token }: { page: EnterPage; token: string }) {
  if (page === "verify" || page === "reset" || page === "invite") {
    const Show = TOKEN_PAGES[page];
    return token === "" ? <MissingToken /> : <Show key={token} token={token} />;
  }
  // Also after it has made a session: it then shows the new keys.
  if (page === "setup") return <Setup key={token} token={token} />;
  if (page === "login" && session.value) return <Start />;
  if (page === "login" || page === "signup" || page === "forgot") {
    const Show = OPEN_PAGES[page];
    return <Show />;
  }
  if (!session.value) return <LogIn />;
  return page === "workspaces" ? <Workspaces /> : <AccountPage />;
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

function Current() {
  const at = place.value;
  if (at.kind === "unknown") return <NotFound />;
  if (at.kind === "enter") return <Enter key={at.page} page={at.page} token={at.token} />;
  if (!session.value) return at.kind === "start" ? <SignedOutStart /> : <LogIn />;
  return at.kind === "start" ? <Start /> : <Inside at={at} />;
}

export function App() {
  return (
    <>
      <div hidden={lock.value === "idle"}>
        <Current />
      </div>
      <LoginAgain />
      <MovedDialog />
    </>
  );
}
