// The pages of a workspace. Switches the session to the workspace in the address before it shows one.
import { useEffect, useState } from "preact/hooks";
import { isUuid } from "../../kernel/ids.ts";
// First, so that nothing divides the pages of a workspace: gzip refers back 32 kB at most. 1 kB less than by name.
import { Frame } from "./shell/frame.tsx";
import { PAGES } from "./pages.tsx";
import { problemMessage, toProblem } from "./api/problems.ts";
import { membership, session, workspaceId } from "./api/session.ts";
import { openWorkspace, refreshMe } from "./api/sign-in.ts";
import { Workspaces } from "./sign-in/workspaces.tsx";
import { hrefTo, hrefToList } from "./links.ts";
import { LinkButton } from "./components/button.tsx";
import { Guard, Page } from "./components/page.tsx";
import { Waiting } from "./components/skeleton.tsx";
import type { Place } from "./routes.ts";

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
