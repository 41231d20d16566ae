// The fields that creating and editing a plan share.
import { useState } from "preact/hooks";
import type { Plan } from "../api/records.ts";
import { SelectField, TextAreaField, TextField } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { linesOf } from "../forms/lines.ts";
import { numberOf } from "../forms/number.ts";
import { LimitsField, limitsOf } from "../keys/key-fields.tsx";

function CeilingField({ value }: { value: Plan["scopes"] }) {
  const [choice, setChoice] = useState(value === null ? "all" : value.length > 0 ? "some" : "none");
  return (
    <>
      <SelectField
        name="ceiling"
        label="Scopes"
        optional
        options={[
          ["all", "Every scope"],
          ["some", "Only some"],
          ["none", "No scope"],
        ]}
        value={choice}
        onChange={setChoice}
        {...(choice === "none" && { hint: "Keys lose every scope until the plan allows it again." })}
      />
      <div hidden={choice !== "some"}>
        <TextAreaField
          name="scopes"
          label="Allowed scopes"
          mono
          value={value?.join("\n") ?? ""}
          hint="One on each line. Keys lose others until the plan allows them again."
        />
      </div>
    </>
  );
}

export function PlanFields({ plan }: { plan?: Plan }) {
  return (
    <>
      <LimitsField current={plan?.rate_limits ?? null} inherited={null} />
      <CeilingField value={plan?.scopes ?? null} />
      <TextField
        name="max_keys"
        label="Maximum active keys"
        optional
        inputMode="numeric"
        value={plan?.max_keys?.toString() ?? ""}
        hint="Of each tenant, in live and in test."
      />
      <TextField
        name="key_ttl_days"
        label="Longest lifetime of a new key, in days"
        optional
        inputMode="numeric"
        value={plan?.key_ttl_days?.toString() ?? ""}
        hint="Existing keys keep their expiry."
      />
    </>
  );
}

/** Throws a problem that names the field. */
export function planOf(values: Values) {
  const { ceiling = "all", scopes = "" } = values;
  return {
    rate_limits: limitsOf(values),
    // The list is absent while it is hidden.
    scopes: ceiling === "all" ? null : [...new Set(linesOf(scopes))],
    max_keys: numberOf(values, "max_keys"),
    key_ttl_days: numberOf(values, "key_ttl_days"),
  };
}
