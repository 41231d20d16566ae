// Lazily loaded pages: all but the login pages. Switches the session to the workspace in the address before it shows a
// page of it.
import { useEffect, useState } from "preact/hooks";
import { isUuid } from "../../kernel/ids.ts";
// First, so that nothing divides the pages of a workspace: gzip refers back 32 kB at most. 1 kB less than by name.
import { Frame } from "./shell/frame.tsx";
import { PAGES } from "./pages.tsx";
import { Account } from "./account/account.tsx";
import { problemMessage, toProblem } from "./api/problems.ts";
import { membership, session, workspaceId } from "./api/session.ts";
import { openWorkspace, refreshMe } from "./api/sign-in.ts";
import { MissingToken } from "./sign-in/invalid-link.tsx";
import { Invite } from "./sign-in/invite.tsx";
import { Reset } from "./sign-in/reset.tsx";
import { Setup } from "./sign-in/setup.tsx";
import { Verify } from "./sign-in/verify.tsx";
import { Workspaces } from "./sign-in/workspaces.tsx";
import { hrefTo, hrefToList } from "./links.ts";
import { LinkButton } from "./components/button.tsx";
import { Guard, Page } from "./components/page.tsx";
import { Waiting } from "./components/skeleton.tsx";
import type { SignInPage, Place } from "./routes.ts";

export { SetupHint } from "./sign-in/setup.tsx";
export { LoginAgain } from "./shell/login-again.tsx";
export { MovedDialog } from "./shell/workspace-switched.tsx";

function WorkspacePage({ at }: { at: Place & { kind: "workspace" } }) {
  const target = PAGES.find(({ page }) => page === at.page);
  const record = at.id !== null && target?.ShowRecord ? { Show: target.ShowRecord, id: at.id } : null;
  const { hasEnv = false } = target ?? {};
  const exists = target && (at.id === null || record);
  // Rows of the audit log have numbers.
  const isMalformed = record !== null && at.page !== "audit" && !isUuid(record.id);
  return (
    <Frame items={PAGES} hasEnv={hasEnv === "records" ? (record ? true : "both") : hasEnv}>
      {!exists && (
        <Page title="This page does not exist" lead="The address may be mistyped, or the page may have moved.">
          <LinkButton href={hrefTo("home")}>Go to Home</LinkButton>
        </Page>
      )}
      {exists && !record && (
        <Guard key={`${at.page} ${at.env}`}>
          <target.Show />
        </Guard>
      )}
      {isMalformed && <Page title="" isMissing back={{ href: hrefToList(at.page), label: target?.title ?? "" }} />}
      {record && !isMalformed && (
        <Guard key={`${record.id} ${at.env}`}>
          <record.Show id={record.id} />
        </Guard>
      )}
    </Frame>
  );
}

/** Switches the session to the workspace in the address, then shows the page. */
export function OpenWorkspace({ at }: { at: Place & { kind: "workspace" } }) {
  const [refused, setRefused] = useState("");
  const [attempt, setAttempt] = useState(0);
  const wanted = session.value?.memberships.find(({ slug }) => slug === at.slug);
  useEffect(() => {
    let isWanted = true;
    setRefused("");
    const open = async (): Promise<void> => {
      if (!wanted) await refreshMe();
      const found = session.value?.memberships.find(({ slug }) => slug === at.slug);
      if (found) await openWorkspace(found.workspace_id, () => isWanted);
      else if (isWanted) setRefused("You are not a member of this workspace.");
    };
    open().catch((error: unknown) => isWanted && setRefused(problemMessage(toProblem(error))));
    return () => void (isWanted = false);
  }, [at, wanted?.workspace_id, attempt]);
  if (refused !== "") return <Workspaces note={refused} {...(wanted && { onRetry: () => setAttempt(attempt + 1) })} />;
  const isOpen = wanted !== undefined && workspaceId.value === wanted.workspace_id && membership.value !== null;
  return isOpen ? <WorkspacePage at={at} /> : <Waiting />;
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

/** The pages outside of a workspace that are not in the first script. */
export function LazySignInPage({
  page,
  token,
}: {
  page: Exclude<SignInPage, "login" | "signup" | "forgot">;
  token: string;
}) {
  if (page === "workspaces") return <Workspaces />;
  if (page === "account") return <AccountPage />;
  // Also after it has made a session: it then shows the new keys.
  if (page === "setup") return <Setup key={token} token={token} />;
  const Show = TOKEN_PAGES[page];
  return token === "" ? <MissingToken /> : <Show key={token} token={token} />;
}
