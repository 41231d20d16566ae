// Why is this key refused? A pasted key is sent in the body of one request, then forgotten: it is in no address and no
// store.
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { call } from "../api/call.ts";
import { toProblem, problemMessage } from "../api/problems.ts";
import { Form, type Values } from "../forms/form.tsx";
import { TextField } from "../forms/field.tsx";
import { hrefTo } from "../here.ts";
import { credentialNote, keyToLookUp } from "../shell/credential-note.ts";
import { Badge } from "../parts/badge.tsx";
import { Dialog, DoneButton } from "../parts/dialog.tsx";
import { Facts } from "../parts/page.tsx";
import { Time } from "../parts/time.tsx";
import { RecordLink } from "./key-name.tsx";
import { tenantLabel, useProjects, useTenants } from "../api/records.ts";
import { StateBadge } from "./state-badge.tsx";
import { keyTitle, type ApiKey } from "./state.ts";

type Found = RouteOutput<"POST /v1/keys/lookup">;

const lookUp = (key: string): Promise<Found> => call("POST /v1/keys/lookup", { body: { key } });

/** Every reason why verifiers refuse a key, and what to know of one that they admit. */
export function Reasons({ of }: { of: Found["reasons"] }) {
  if (of.length === 0) return <p>Verifiers admit this key.</p>;
  return (
    <ul aria-label="Reasons">
      {of.map(({ code, message, since }) => (
        <li key={code}>
          {message} {since !== null && <Time at={since} />}
        </li>
      ))}
    </ul>
  );
}

/** Whose key it is. */
function Record({ of }: { of: ApiKey }) {
  const project = useProjects().find(({ id }) => id === of.project_id);
  const tenant = useTenants([of.tenant_id]).get(of.tenant_id);
  return (
    <Facts
      facts={[
        ["Name", <bdi key="name">{keyTitle(of)}</bdi>],
        ["State", <StateBadge key="state" of={of} tenant={tenant} />],
        ["Tenant", <RecordLink key="tenant" page="tenants" id={of.tenant_id} label={tenant && tenantLabel(tenant)} />],
        ["Project", <RecordLink key="project" page="projects" id={of.project_id} label={project?.name} />],
        ["Environment", of.env === "test" ? "Test" : "Live"],
        ["Last used", <Time key="used" at={of.last_used_at} />],
      ]}
    />
  );
}

function Verdict({ of }: { of: Found }) {
  const { admitted, record, reasons, display_prefix } = of;
  return (
    <>
      <p>
        {display_prefix !== null && <code>{display_prefix}… </code>}
        {admitted === true && <Badge tone="good">Admitted</Badge>}
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
  const [found, setFound] = useState<Found | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    if (text === "") return;
    const key = keyToLookUp(text);
    if (key === null) return setProblem(credentialNote(text));
    lookUp(key).then(setFound, (error: unknown) => setProblem(problemMessage(toProblem(error))));
  }, []);
  const send = async ({ key = "" }: Values): Promise<void> => {
    const inside = keyToLookUp(key);
    const note = credentialNote(key);
    if (inside === null && note !== null) setProblem(note);
    // A text that is no credential of ours gets the server's answer.
    else setFound(await lookUp(inside ?? key));
  };
  return (
    <Dialog title="Look up a key" onClose={onClose}>
      {problem !== null && <p role="alert">{problem}</p>}
      <div role="status" class="stack">
        {found && <Verdict of={found} />}
      </div>
      {found === null && problem === null && text === "" && (
        <Form submit="Look up" watch={false} send={send} onCancel={onClose}>
          <TextField name="key" label="Key" hint="The whole key. It is not stored." />
        </Form>
      )}
      {(found !== null || problem !== null) && <DoneButton onClick={onClose} />}
    </Dialog>
  );
}
