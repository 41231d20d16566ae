// Another tab has switched the session to another workspace: nothing was written, and the person decides.
import { useEffect } from "preact/hooks";
import { moved } from "../api/call.ts";
import { membership, session, setSession, type Membership } from "../api/session.ts";
import { openWorkspace, refreshMe } from "../api/sign-in.ts";
import { ActionButton } from "../forms/action.tsx";
import { env } from "../links.ts";
import { Button } from "../components/button.tsx";
import { Dialog } from "../components/dialog.tsx";
import { go } from "../routes.ts";

/** The session's own workspace may differ from what this tab knows. */
async function returnHere(id: string): Promise<void> {
  const current = session.value;
  if (current) setSession({ ...current, workspaceId: null });
  await openWorkspace(id);
}

function Choice({ here }: { here: Membership }) {
  // Which workspace it is in, the refusal of a request does not say.
  useEffect(() => void refreshMe().catch(() => {}), []);
  const { memberships = [], workspaceId: active = null } = session.value ?? {};
  const other = memberships.find(({ workspace_id }) => workspace_id === active && active !== here.workspace_id);
  const openOther = (): void => {
    moved.value = false;
    go(other ? `#/w/${other.slug}/${env.value}/home` : "#/workspaces");
  };
  return (
    <Dialog title="This session is in another workspace now" onClose={() => {}} locked>
      <p>It was switched in another tab. Nothing was changed. Choose where to continue.</p>
      <div class="buttons">
        <ActionButton kind="primary" send={() => returnHere(here.workspace_id)}>
          Return to <bdi>{here.name}</bdi>
        </ActionButton>
        <Button onClick={openOther}>
          {other ? (
            <>
              Open <bdi>{other.name}</bdi>
            </>
          ) : (
            "Choose a workspace"
          )}
        </Button>
      </div>
    </Dialog>
  );
}

export function MovedDialog() {
  const here = membership.value;
  return moved.value && here ? <Choice here={here} /> : null;
}
