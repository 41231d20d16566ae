// Home: the first steps, the workspace in numbers, its traffic, and what happened last.
import { useEffect, useState } from "preact/hooks";
import { formatNumber } from "../../shared/format.ts";
import { useOverview } from "../api/overview.ts";
import { workspaceId } from "../api/session.ts";
import { readSetting, writeSetting } from "../api/web-storage.ts";
import { useCreate } from "../records/use-dialogs.tsx";
import { env } from "../links.ts";
import { CreateKey } from "../keys/create.tsx";
import { Button } from "../components/button.tsx";
import { Page, Panel } from "../components/page.tsx";
import { Traffic } from "../usage/traffic.tsx";
import { Checklist, useSteps } from "./checklist.tsx";
import { Figures } from "./figures.tsx";
import { Recent } from "./recent.tsx";

const HASH_CHARS = 16;

function FirstSteps({ onHide }: { onHide: () => void }) {
  const steps = useSteps(env.value);
  const isDone = steps?.every(({ done }) => done) ?? false;
  // For good: what it reads is not requested again.
  useEffect(() => {
    if (isDone) onHide();
  }, [isDone]);
  if (!steps || isDone) return null;
  return (
    <Panel
      title="First steps"
      actions={
        <Button kind="quiet" onClick={onHide}>
          Hide checklist
        </Button>
      }
    >
      <Checklist steps={steps} links />
    </Panel>
  );
}

/** With a note of it, a person can prove later that nothing before it has changed. */
function AuditHead() {
  const audit = useOverview().state.value.data?.audit;
  if (!audit) return null;
  return (
    <p class="muted small">
      The log ends at row {formatNumber(audit.head_seq)}, hash <code>{audit.head_hash.slice(0, HASH_CHARS)}…</code>
    </p>
  );
}

export function Home() {
  const hiddenName = `checklist:${workspaceId.value ?? ""}` as const;
  const [hidden, setHidden] = useState(readSetting(hiddenName) !== null);
  const { button, dialog } = useCreate("Create key", CreateKey);
  const hide = (): void => {
    writeSetting(hiddenName, "hidden");
    setHidden(true);
  };
  return (
    <Page title="Home" actions={button}>
      {!hidden && <FirstSteps onHide={hide} />}
      <Figures />
      <Traffic title="Requests" />
      <Recent
        title={env.value === "test" ? "Recent changes, live and test" : "Recent changes"}
        looksUp={hidden}
        foot={<AuditHead />}
      />
      {dialog}
    </Page>
  );
}
