// Rotating a key: a new one with the same rights; the old one works for a while longer.
import { useMemo, useState } from "preact/hooks";
import { call, newIdempotencyKey } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { keyTitle } from "../api/records.ts";
import { Form } from "../forms/form.tsx";
import { hrefTo } from "../links.ts";
import { Dialog } from "../components/dialog.tsx";
import { SecretDialog } from "../forms/secret.tsx";
import { Named } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { go } from "../routes.ts";
import { OverlapField, overlapOf } from "./overlap.tsx";
import { PropagationDialog } from "./propagation.tsx";
import type { Env } from "../../../kernel/credentials.ts";
import type { ApiKey } from "./state.ts";

type Made = { id: string; key: string; expires_at: string | null };
type Step = { name: "ask" } | ({ name: "secret" | "propagation" } & Made);

function NewKey({ made, env, onDone }: { made: Made; env: Env; onDone: () => void }) {
  return (
    <SecretDialog secret={made.key} variable="API_KEY" env={env} onDone={onDone}>
      <p>
        It replaces the old key and has the same scopes and limits.{" "}
        {made.expires_at === null ? (
          "It does not expire."
        ) : (
          <>
            It expires on <Time at={made.expires_at} exact />.
          </>
        )}
      </p>
    </SecretDialog>
  );
}

export function RotateKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const [step, setStep] = useState<Step>({ name: "ask" });
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  if (step.name === "secret")
    return <NewKey made={step} env={of.env} onDone={() => setStep({ ...step, key: "", name: "propagation" })} />;
  if (step.name === "propagation") {
    const open = (): void => {
      onClose();
      go(hrefTo("keys", { id: step.id }));
    };
    const action = { label: "Open the new key", onClick: open };
    return (
      <PropagationDialog
        title="Key rotated"
        projectIds={[of.project_id]}
        env={of.env}
        onClose={onClose}
        action={action}
      />
    );
  }
  return (
    <Dialog title={<Named verb="Rotate" name={keyTitle(of)} />} onClose={onClose} env={of.env}>
      <Form
        submit="Rotate key"
        watch={false}
        onCancel={onClose}
        send={async (values) => {
          const body = overlapOf(values);
          const made = await call("POST /v1/keys/{id}/rotate", { params: { id: of.id }, body, idempotencyKey });
          refreshReads("/v1/keys");
          setStep({ name: "secret", id: made.id, key: made.key, expires_at: made.expires_at });
        }}
      >
        <OverlapField expires_at={of.expires_at} />
      </Form>
    </Dialog>
  );
}
