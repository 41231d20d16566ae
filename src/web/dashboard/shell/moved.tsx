// Another tab has switched the session to another workspace: nothing was written, and the person decides.
import { moved } from "../api/call.ts";
import { clearQueries } from "../api/query.ts";
import { membership, session, setSession } from "../api/session.ts";
import { openWorkspace, refreshMe } from "../api/sign-in.ts";
import { env } from "../here.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { go } from "../routes.ts";

/** The session's own workspace may differ from what this tab knows. */
async function returnHere(id: string): Promise<void> {
  const current = session.value;
  if (current) setSession({ ...current, workspaceId: null });
  await openWorkspace(id);
  moved.value = false;
  clearQueries();
}

async function openOther(): Promise<void> {
  await refreshMe();
  const other = session.value?.memberships.find(({ workspace_id }) => workspace_id === session.value?.workspaceId);
  moved.value = false;
  go(other ? `#/w/${other.slug}/${env.value}/home` : "#/workspaces");
}

export function MovedDialog() {
  const here = membership.value;
  if (!moved.value || !here) return null;
  return (
    <Dialog title="This session is in another workspace now" onClose={() => {}} locked>
      <p>It was switched in another tab. Nothing was changed. Choose where to continue.</p>
      <div class="buttons">
        <Button kind="primary" onClick={() => void returnHere(here.workspace_id)}>
          Return to {here.name}
        </Button>
        <Button onClick={() => void openOther()}>Open the other workspace</Button>
      </div>
    </Dialog>
  );
}
