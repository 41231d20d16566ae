// A tenant's plan: as a field, and as a link.
import { usePlans } from "../api/records.ts";
import { SelectField, type Option } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { RecordLink } from "../keys/key-name.tsx";

/** Absent until the plans are known, and if there is none: then the tenant keeps what it has. */
export function PlanField({ value }: { value?: string | undefined }) {
  const plans = usePlans();
  if (plans.length === 0) return null;
  const options: Option[] = [["", "None"], ...plans.map(({ id, name }): Option => [id, name])];
  return <SelectField name="plan_id" label="Plan" optional options={options} value={value ?? ""} />;
}

/** Null = none; undefined if the field is absent. */
export const planIdOf = ({ plan_id }: Values): string | null | undefined => (plan_id === "" ? null : plan_id);

export function PlanLink({ id }: { id: string }) {
  return <RecordLink page="plans" id={id} label={usePlans().find((each) => each.id === id)?.name} />;
}
