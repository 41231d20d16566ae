// The origins of pages that may embed the portal.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { oneAtATime } from "../api/serialize.ts";
import { Problem, toProblem } from "../api/problems.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { Confirm } from "../forms/confirm.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { Button, roleReason } from "../components/button.tsx";
import { Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Snippet } from "../components/snippet.tsx";
import { toast } from "../shell/toasts.tsx";

/** Changes the list as it is now: what is on the screen may be older than another change. */
const save = oneAtATime(async (change: (origins: string[]) => string[], done: string): Promise<void> => {
  const { embed_origins } = await call("GET /v1/workspace", {});
  await call("PATCH /v1/workspace", { body: { embed_origins: change(embed_origins) } });
  refreshReads("/v1/workspace");
  toast(done);
});

/** The API names the place in the list; the form has one field. */
function atField(error: unknown): Problem {
  const { status, code, message, details } = toProblem(error);
  return new Problem(status, { code, message, details: details.map((one) => ({ ...one, path: "origin" })) });
}

function AddOrigin() {
  const [added, setAdded] = useState(0);
  const form = useRef<HTMLDivElement>(null);
  // The next form replaces the one that had the focus.
  useLayoutEffect(() => {
    if (added > 0 && document.activeElement === document.body) form.current?.querySelector("input")?.focus();
  }, [added]);
  const send = async ({ origin = "" }: Values): Promise<void> => {
    await save((origins) => [...origins, origin], "Origin added.").catch((error: unknown) => {
      throw atField(error);
    });
    setAdded(added + 1);
  };
  return (
    <div ref={form} class="no-print">
      <Form
        key={added}
        label="Add origin"
        submit="Add origin"
        submitKind="plain"
        send={send}
        disabled={roleReason("admin")}
      >
        <TextField name="origin" label="Origin" mono hint="Such as https://app.example.com" />
      </Form>
    </div>
  );
}

function RemoveOrigin({ origin, onClose }: { origin: string; onClose: () => void }) {
  const send = async (): Promise<void> => {
    await save((origins) => origins.filter((one) => one !== origin), "Origin removed.");
    onClose();
  };
  return (
    <Confirm title="Remove origin" submit="Remove origin" send={send} onClose={onClose} env="both">
      <p>
        Customers on <code>{origin}</code> lose the portal at once, in live and in test.
      </p>
    </Confirm>
  );
}

function Origin({ origin }: { origin: string }) {
  const [removing, setRemoving] = useState(false);
  return (
    <li>
      <code>{origin}</code>
      <Button kind="quiet" needs="admin" label={`Remove ${origin}`} onClick={() => setRemoving(true)}>
        Remove
      </Button>
      {removing && <RemoveOrigin origin={origin} onClose={() => setRemoving(false)} />}
    </li>
  );
}

export function Origins() {
  const read = useRead("GET /v1/workspace", {});
  return (
    <Panel title="Origins">
      <p>Pages of these origins may show the portal, in live and in test. Scheme, host and port; no path.</p>
      <Loaded read={read} rows={2}>
        {({ embed_origins }) => (
          <>
            {embed_origins.length === 0 ? (
              <>
                <p class="warning">
                  None yet. The portal opens nowhere until you add one, here or on the command line:
                </p>
                <Snippet name="command" code="keyrack workspace update --embed-origins https://app.example.com" />
              </>
            ) : (
              <ul class="boxed-list" aria-label="Origins">
                {embed_origins.map((origin) => (
                  <Origin key={origin} origin={origin} />
                ))}
              </ul>
            )}
            <AddOrigin />
          </>
        )}
      </Loaded>
    </Panel>
  );
}
