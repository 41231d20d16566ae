// The origins of pages that may embed the portal.
import { call } from "../api/call.ts";
import { Problem, toProblem } from "../api/problems.ts";
import { refreshReads, useRead } from "../api/query.ts";
import { ActionButton } from "../forms/action.tsx";
import { TextField } from "../forms/field.tsx";
import { Form, type Values } from "../forms/form.tsx";
import { roleReason } from "../parts/button.tsx";
import { Panel } from "../parts/page.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Snippet } from "../parts/snippet.tsx";
import { toast } from "../shell/toasts.tsx";

async function save(embed_origins: string[], said: string): Promise<void> {
  await call("PATCH /v1/workspace", { body: { embed_origins } });
  refreshReads("/v1/workspace");
  toast(said);
}

/** The API names the place in the list; the form has one field. */
function atField(error: unknown): Problem {
  const { status, code, message, details } = toProblem(error);
  return new Problem(status, { code, message, details: details.map((one) => ({ ...one, path: "origin" })) });
}

function AddOrigin({ origins }: { origins: readonly string[] }) {
  const send = async ({ origin = "" }: Values): Promise<void> => {
    await save([...origins, origin], "Origin added.").catch((error: unknown) => {
      throw atField(error);
    });
  };
  return (
    <Form
      key={origins.length}
      label="Add origin"
      submit="Add origin"
      submitKind="plain"
      send={send}
      disabled={roleReason("admin")}
    >
      <TextField name="origin" label="Origin" mono hint="Such as https://app.example.com" />
    </Form>
  );
}

type OriginProps = { origin: string; others: string[] };

function Origin({ origin, others }: OriginProps) {
  return (
    <li>
      <code>{origin}</code>
      <ActionButton kind="quiet" needs="admin" label={`Remove ${origin}`} send={() => save(others, "Origin removed.")}>
        Remove
      </ActionButton>
    </li>
  );
}

export function Origins() {
  const read = useRead("GET /v1/workspace", {});
  return (
    <Panel title="Origins">
      <p>Pages of these origins may show the portal. Scheme, host and port; no path.</p>
      <Loaded read={read} rows={2}>
        {({ embed_origins }) => (
          <>
            {embed_origins.length === 0 ? (
              <>
                <p class="muted">None yet. The portal opens nowhere until you add one, here or on the command line:</p>
                <Snippet name="command" code="keyrack workspace update --embed-origins https://app.example.com" />
              </>
            ) : (
              <ul class="boxed-list" aria-label="Origins">
                {embed_origins.map((origin) => (
                  <Origin key={origin} origin={origin} others={embed_origins.filter((one) => one !== origin)} />
                ))}
              </ul>
            )}
            <AddOrigin origins={embed_origins} />
          </>
        )}
      </Loaded>
    </Panel>
  );
}
