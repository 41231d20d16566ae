// Disabling a key for a while, and enabling it again; then the nodes as they acknowledge it.
import { useState } from "preact/hooks";
import { call } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";
import { keyTitle } from "../api/records.ts";
import { Confirm } from "../forms/confirm.tsx";
import { ReasonField, reasonOf } from "../forms/common-fields.tsx";
import type { Values } from "../forms/form.tsx";
import { Named } from "../components/text.tsx";
import { toast } from "../shell/toasts.tsx";
import { PropagationDialog } from "./propagation.tsx";
import type { ApiKey } from "./state.ts";

async function change(id: string, enables: boolean, values: Values): Promise<void> {
  const target = { params: { id }, query: {} };
  if (enables) await call("POST /v1/keys/{id}/enable", { ...target, body: {} });
  else await call("POST /v1/keys/{id}/disable", { ...target, body: reasonOf(values) });
  refreshReads("/v1/keys");
  toast(enables ? "Key enabled." : "Key disabled.", false);
}

export function DisableKey({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const enables = of.disabled_at !== null;
  const [done, setDone] = useState(false);
  const verb = enables ? "Enable" : "Disable";
  if (done)
    return (
      <PropagationDialog
        title={`Key ${verb.toLowerCase()}d`}
        projectIds={[of.project_id]}
        env={of.env}
        onClose={onClose}
      />
    );
  return (
    <Confirm
      title={<Named verb={verb} name={keyTitle(of)} />}
      submit={`${verb} key`}
      submitKind={enables ? "primary" : "danger"}
      env={of.env}
      onClose={onClose}
      fields={!enables && <ReasonField />}
      send={async (values) => {
        await change(of.id, enables, values);
        setDone(true);
      }}
    >
      <p>
        {enables
          ? "Requests with this key are allowed again."
          : "Requests with this key are refused until it is enabled again. The key itself does not change."}
      </p>
    </Confirm>
  );
}
