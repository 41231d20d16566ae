// Why is this key refused? A pasted key is sent in the body of one request, then forgotten: it is in no address and no
// store.
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call } from "../api/call.ts";
import { toProblem, problemMessage } from "../api/problems.ts";
import { Form, type Values } from "../forms/form.tsx";
import { TextField } from "../forms/field.tsx";
import { hrefTo } from "../links.ts";
import { credentialNote, keyToLookUp } from "../forms/credential-note.ts";
import { Badge } from "../components/badge.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Facts } from "../components/page.tsx";
import { Time } from "../components/time.tsx";
import { RecordLink } from "./key-name.tsx";
import { keyTitle, tenantLabel, useProjects, useTenant } from "../api/records.ts";
import { StateBadge } from "./state-badge.tsx";
import type { ApiKey } from "./state.ts";

type Found = RouteOutput<"POST /v1/keys/lookup">;

type Answer = { found?: Found; problem?: string | null };

const lookUp = (key: string): Promise<Found> => call("POST /v1/keys/lookup", { body: { key } });

/** Every reason why nodes refuse a key, and what to know of one that they admit. */
export function Reasons({ of }: { of: Found["reasons"] }) {
  if (of.length === 0) return <p>Verifiers admit this key.</p>;
  return (
    <ul aria-label="Reasons">
      {of.map(({ code, message, since }) => (
        <li key={code}>
          {message}{" "}
          {since !== null && (
            <span class="muted small">
              Since <Time at={since} exact />.
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Whose key it is. */
function Record({ of }: { of: ApiKey }) {
  const project = useProjects().find(({ id }) => id === of.project_id);
  const tenant = useTenant(of.tenant_id);
  return (
    <Facts
      facts={{
        Name: <bdi>{keyTitle(of)}</bdi>,
        State: <StateBadge of={of} tenant={tenant} />,
        Tenant: <RecordLink page="tenants" id={of.tenant_id} label={tenant && tenantLabel(tenant)} />,
        Project: <RecordLink page="projects" id={of.project_id} label={project?.name} />,
        Environment: of.env === "test" ? "Test" : "Live",
        "Last used": <Time at={of.last_used_at} />,
      }}
    />
  );
}

function Verdict({ of }: { of: Found }) {
  const { admitted, record, reasons, display_prefix } = of;
  return (
    <>
      <p>
        {display_prefix !== null && <code>{display_prefix}… </code>}
        {admitted === true && <Badge tone="good">Allowed</Badge>}
        {admitted === false && <Badge tone="bad">Refused</Badge>}
      </p>
      <Reasons of={reasons} />
      {record?.object === "api_key" && (
        <>
          <Record of={record} />
          <a href={hrefTo("keys", { id: record.id, env: record.env })}>Open this key</a>
        </>
      )}
    </>
  );
}

/** `text`: what was pasted elsewhere, or empty. */
export function LookUpKey({ text, onClose }: { text: string; onClose: () => void }) {
  const [answer, setAnswer] = useState<Answer | null>(text === "" ? {} : null);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    // Not once another key is looked up.
    const show = (first: Answer): void => setAnswer((now) => now ?? first);
    const key = keyToLookUp(text);
    if (key === null) return show({ problem: credentialNote(text) });
    lookUp(key).then(
      (found) => show({ found }),
      (error: unknown) => show({ problem: problemMessage(toProblem(error)) }),
    );
  }, []);
  const send = async ({ key = "" }: Values): Promise<void> => {
    setAnswer({});
    const inside = keyToLookUp(key);
    const note = inside === null ? credentialNote(key) : null;
    // A text that is no credential of ours gets the server's answer.
    setAnswer(note === null ? { found: await lookUp(inside ?? key) } : { problem: note });
    setTyped("");
  };
  const { found, problem } = answer ?? {};
  return (
    <Dialog title="Look up a key" onClose={onClose}>
      {problem && <p role="alert">{problem}</p>}
      <div role="status" class="stack">
        {found && <Verdict of={found} />}
        {!answer && <p class="muted">Looking up…</p>}
      </div>
      <Form submit="Look up" watch={false} send={send} cancel="Done" onCancel={onClose}>
        <TextField
          name="key"
          label={found || problem ? "Another key" : "Key"}
          hint="The whole key. It is not stored."
          value={typed}
          onInput={setTyped}
        />
      </Form>
    </Dialog>
  );
}
