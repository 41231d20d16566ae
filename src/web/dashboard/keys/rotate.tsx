// Rotating a key: a new one with the same rights; the old one works for a while longer.
import { useMemo, useState } from "preact/hooks";
import { formatAbsolute } from "../../shared/format.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { serverNow } from "../api/clock.ts";
import { refreshReads } from "../api/query.ts";
import { SelectField, type Option } from "../forms/field.tsx";
import { Form } from "../forms/form.tsx";
import { hrefTo } from "../here.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { SecretDialog } from "../parts/secret.tsx";
import { go } from "../routes.ts";
import { Propagation } from "./propagation.tsx";
import { keyTitle, type ApiKey } from "./state.ts";

const HOUR_MS = 3_600_000;
export const OVERLAPS: readonly Option[] = [
  ["0", "Not at all: it stops now"],
  ["1", "1 hour"],
  ["24", "24 hours"],
  ["72", "3 days"],
  ["168", "7 days"],
];

type Step = { name: "ask" } | { name: "secret" | "propagation"; id: string; key: string };

function Rotated({ of, id, onClose }: { of: ApiKey; id: string; onClose: () => void }) {
  const open = (): void => {
    onClose();
    go(hrefTo("keys", { id }));
  };
  return (
    <Dialog title="Key rotated" onClose={onClose} changes>
      <Propagation projectId={of.project_id} />
      <div class="buttons">
        <Button kind="primary" autofocus onClick={open}>
          Open the new key
        </Button>
      </div>
    </Dialog>
  );
}

export function RotateKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const [step, setStep] = useState<Step>({ name: "ask" });
  const [overlap, setOverlap] = useState("24");
  const idempotencyKey = useMemo(newIdempotencyKey, []);
  if (step.name === "secret")
    return (
      <SecretDialog
        secret={step.key}
        variable="API_KEY"
        onDone={() => setStep({ ...step, key: "", name: "propagation" })}
      >
        <p>It replaces the old key and has the same scopes and limits.</p>
      </SecretDialog>
    );
  if (step.name === "propagation") return <Rotated of={of} id={step.id} onClose={onClose} />;
  const until = formatAbsolute(serverNow() + Number(overlap) * HOUR_MS);
  return (
    <Dialog
      title={
        <>
          Rotate <bdi>{keyTitle(of)}</bdi>
        </>
      }
      onClose={onClose}
      changes
    >
      <Form
        submit="Rotate key"
        watch={false}
        actions={<Button onClick={onClose}>Cancel</Button>}
        send={async ({ overlap_hours = "24" }) => {
          const body = { overlap_hours: Number(overlap_hours) };
          const made = await call("POST /v1/keys/{id}/rotate", { params: { id: of.id }, body, idempotencyKey });
          refreshReads("/v1/keys");
          setStep({ name: "secret", id: made.id, key: made.key });
        }}
      >
        <SelectField
          name="overlap_hours"
          label="The old key keeps working for"
          options={OVERLAPS}
          value={overlap}
          onChange={setOverlap}
          hint={overlap === "0" ? "The old key stops working at once." : `The old key works until ${until}.`}
        />
      </Form>
    </Dialog>
  );
}
