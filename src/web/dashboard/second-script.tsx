// The second script: everything but the login pages. Sees to it that the session is in the workspace of the address
// before a page of it is shown.
import { useEffect, useState } from "preact/hooks";
import { isUuid } from "../../kernel/ids.ts";
import { Account } from "./account/account.tsx";
import { problemMessage, toProblem } from "./api/problems.ts";
import { membership, session, workspaceId } from "./api/session.ts";
import { openWorkspace, refreshMe } from "./api/sign-in.ts";
import { MissingToken } from "./enter/invalid-link.tsx";
import { Invite } from "./enter/invite.tsx";
import { Reset } from "./enter/reset.tsx";
import { Setup } from "./enter/setup.tsx";
import { Verify } from "./enter/verify.tsx";
import { Workspaces } from "./enter/workspaces.tsx";
import { hrefTo, hrefToList } from "./here.ts";
import { PAGES } from "./pages.tsx";
import { LinkButton } from "./parts/button.tsx";
import { Page } from "./parts/page.tsx";
import type { EnterPage, Place } from "./routes.ts";
import { Frame } from "./shell/frame.tsx";

export { SetupHint } from "./enter/setup.tsx";
export { LoginAgain } from "./shell/login-again.tsx";
export { MovedDialog } from "./shell/moved.tsx";

function WorkspacePage({ at }: { at: Place & { kind: "workspace" } }) {
  const target = PAGES.find(({ page }) => page === at.page);
  const record = at.id !== null && target?.ShowRecord ? { Show: target.ShowRecord, id: at.id } : null;
  const exists = target && (at.id === null || record);
  // Rows of the audit log have numbers.
  const isMalformed = record !== null && at.page !== "audit" && !isUuid(record.id);
  return (
    <Frame items={PAGES} hasEnv={target?.hasEnv ?? false}>
      {!exists && (
        <Page title="This page does not exist" lead="The address may be mistyped, or the page has moved.">
          <LinkButton href={hrefTo("home")}>Go to Home</LinkButton>
        </Page>
      )}
      {exists && !record && <target.Show key={`${at.page} ${at.env}`} />}
      {isMalformed && (
        <Page
          title="Not found"
          lead="It does not exist, was deleted, or belongs to another workspace."
          back={{ href: hrefToList(at.page), label: target?.title ?? "" }}
        />
      )}
      {record && !isMalformed && <record.Show key={`${record.id} ${at.env}`} id={record.id} />}
    </Frame>
  );
}

/** Switches the session to the workspace in the address, then shows the page. */
export function Inside({ at }: { at: Place & { kind: "workspace" } }) {
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
  return isOpen ? <WorkspacePage at={at} /> : null;
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
export function EnterLater({
  page,
  token,
}: {
  page: Exclude<EnterPage, "login" | "signup" | "forgot">;
  token: string;
}) {
  if (page === "workspaces") return <Workspaces />;
  if (page === "account") return <AccountPage />;
  // Also after it has made a session: it then shows the new keys.
  if (page === "setup") return <Setup key={token} token={token} />;
  const Show = TOKEN_PAGES[page];
  return token === "" ? <MissingToken /> : <Show key={token} token={token} />;
}
