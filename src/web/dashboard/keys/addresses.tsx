// Where keys may be used from: as fields of a form, and as a fact.
import { useState } from "preact/hooks";
import { fieldProblem } from "../api/problems.ts";
import { SelectField, TextAreaField, type Option } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { Chips } from "../components/badge.tsx";

/** The address list of a key or tenant; null: a key that has none of its own. */
type Listed = { allowed_cidrs: string[] | null; ip_mode: "enforce" | "report" };
const [RULE, LIST] = ["address_rule", "allowed_cidrs"] as const;

const OPTIONS: readonly Option[] = [
  ["any", "Any address"],
  ["enforce", "These networks only"],
  ["report", "Any address; report requests from outside these networks"],
];
const INHERIT: Option = ["tenant", "Same as the tenant"];

const ruleOf = ({ allowed_cidrs, ip_mode }: Listed): string =>
  allowed_cidrs === null ? "tenant" : allowed_cidrs.length === 0 ? "any" : ip_mode;

export function AddressFields({ of, isKey = false }: { of: Listed; isKey?: boolean }) {
  const [rule, setRule] = useState(ruleOf(of));
  return (
    <>
      <SelectField
        name={RULE}
        label="Allowed IP addresses"
        options={isKey ? [INHERIT, ...OPTIONS] : OPTIONS}
        value={rule}
        onChange={setRule}
        {...(!isKey && { hint: "Applies to the keys that have no networks of their own." })}
      />
      <div hidden={rule !== "enforce" && rule !== "report"}>
        <TextAreaField
          name={LIST}
          label="Networks"
          mono
          value={(of.allowed_cidrs ?? []).join("\n")}
          hint="One on each line: 203.0.113.0/24 or 2001:db8::/32. Up to 50."
        />
      </div>
    </>
  );
}

function ruleIn(values: Values): Partial<Listed> {
  const rule = values[RULE];
  if (rule === "tenant") return { allowed_cidrs: null };
  if (rule !== "enforce" && rule !== "report") return { allowed_cidrs: [] };
  const allowed_cidrs = (values[LIST] ?? "").split(/[\s,]+/).filter(Boolean);
  if (allowed_cidrs.length === 0) throw fieldProblem(LIST, "must list at least one network");
  return { allowed_cidrs, ip_mode: rule };
}

/** What to send: nothing if nothing changed. Throws a problem for a list without networks. */
export function addressesOf(values: Values, before: Listed): Partial<Listed> {
  const after = { ...before, ...ruleIn(values) };
  return JSON.stringify(after) === JSON.stringify(before) ? {} : ruleIn(values);
}

export function tenantAddressesOf(values: Values, before: Listed & { allowed_cidrs: string[] }) {
  const { allowed_cidrs, ...mode } = addressesOf(values, before);
  return { ...mode, ...(allowed_cidrs && { allowed_cidrs }) };
}

export function AllowedAddresses({ of }: { of: Listed }) {
  const rule = ruleOf(of);
  if (rule === "tenant") return <>Same as the tenant</>;
  if (rule === "any") return <>Any address</>;
  return (
    <>
      <Chips values={of.allowed_cidrs ?? []} />
      {rule === "report" && <span class="muted small"> others are allowed and reported</span>}
    </>
  );
}
