// The fields that creating and editing a key share: scopes, expiry, limits.
import { useState } from "preact/hooks";
import { formatAbsolute, plural } from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import { CheckField, SelectField, TextAreaField, TextField, type Option } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { linesOf } from "../forms/lines.ts";
import { rulesOf, ruleText, rulesText, type Rules } from "./limits.ts";
import type { Project } from "../api/records.ts";
import type { ApiKey } from "./state.ts";
import { DAY_MS } from "../../../kernel/durations.ts";

const EXPIRY_DAYS = [30, 90, 365];
const NO_POLICY = { default_ttl_days: null, max_ttl_days: null };

const CHOSEN = "scope ";

type ScopesProps = { value?: readonly string[]; project: Project | undefined };

/**
 * Scopes of the project's catalogue to choose from, and a field for others. A new key starts with the defaults; what
 * was typed stays when another project is chosen.
 */
export function ScopesField({ value, project }: ScopesProps) {
  const catalogue = project?.scope_catalogue ?? [];
  const hint = "One on each line, such as orders:read. A key without scopes can only call routes that require none.";
  const others = value?.filter((scope) => !catalogue.some(({ name }) => name === scope)) ?? [];
  return (
    <>
      {catalogue.length > 0 && (
        <fieldset key={project?.id}>
          <legend>Scopes</legend>
          {catalogue.map((entry) => (
            <CheckField
              key={entry.name}
              name={`${CHOSEN}${entry.name}`}
              label={
                <>
                  <bdi>{entry.name}</bdi>
                  {entry.description && (
                    <>
                      : <bdi>{entry.description}</bdi>
                    </>
                  )}
                </>
              }
              checked={value?.includes(entry.name) ?? entry.default}
            />
          ))}
        </fieldset>
      )}
      <TextAreaField
        name="scopes"
        label={catalogue.length > 0 ? "Other scopes" : "Scopes"}
        optional
        hint={hint}
        value={others.join("\n")}
        mono
        rows={catalogue.length > 0 ? 2 : 3}
      />
    </>
  );
}

export function scopesOf({ scopes = "", ...values }: Values): string[] {
  const chosen = Object.keys(values).filter((name) => name.startsWith(CHOSEN));
  // A scope may be any text, so only lines separate them.
  return [...new Set([...chosen.map((name) => name.slice(CHOSEN.length)), ...linesOf(scopes)])];
}

type ExpiryPolicy = Pick<Project["key_policy"], "default_ttl_days" | "max_ttl_days">;

/** The expiries that the project's policy allows, counted from `now`. */
function expiriesOf({ default_ttl_days, max_ttl_days }: ExpiryPolicy, now: number): Option[] {
  const usual = default_ttl_days ?? max_ttl_days;
  const days = EXPIRY_DAYS.filter((count) => count <= (max_ttl_days ?? Number.POSITIVE_INFINITY));
  return [
    ...(usual === null ? [] : [["default", `Project default (in ${plural(usual, "day")})`] as const]),
    ...(max_ttl_days === null ? [["none", "Never"] as const] : []),
    ...days.map((count) => [new Date(now + count * DAY_MS).toISOString(), `In ${count} days`] as const),
    ["date", "On a date"],
  ];
}

/** `current`: the stored expiry of a key that is edited. */
export function ExpiryField({ current, policy }: { current?: string | null; policy?: ExpiryPolicy | undefined }) {
  // Taken once: a repeated request must have the same body.
  const [now] = useState(serverNow);
  const options = expiriesOf(policy ?? NO_POLICY, now);
  const keeps = typeof current === "string" || (current === null && !options.some(([value]) => value === "none"));
  const kept: Option[] = keeps ? [["keep", `Keep: ${current ? formatAbsolute(Date.parse(current)) : "never"}`]] : [];
  const choices = [...kept, ...(current === undefined ? options : options.filter(([value]) => value !== "default"))];
  const [picked, setChoice] = useState<string>();
  // The project's default until one is picked, and for one that another project does not offer.
  const [choice] = choices.find(([value]) => value === picked) ?? choices[0] ?? ["none"];
  return (
    <>
      <SelectField
        // With a date, what the server says of the expiry belongs to that field.
        name={choice === "date" ? "expiry" : "expires_at"}
        label="Expires"
        optional
        options={choices}
        value={choice}
        onChange={setChoice}
      />
      {choice === "date" && (
        <TextField name="expires_at" label="Date" type="date" hint="At the end of this day, UTC." />
      )}
    </>
  );
}

/** Null = no expiry; undefined = as it is, or as the project's policy says. */
export function expiryOf({ expires_at = "none" }: Values): string | null | undefined {
  if (expires_at === "none") return null;
  if (expires_at === "keep" || expires_at === "default") return undefined;
  // A date; the others are complete times.
  return expires_at.includes("T") ? expires_at : `${expires_at}T23:59:59.999Z`;
}

/** What a key gets without limits of its own. */
export type Inherited = { rules: Rules; source: string };
type LimitsProps = { current?: ApiKey["rate_limits"]; inherited: Inherited | null };

export function LimitsField({ current = null, inherited }: LimitsProps) {
  const [choice, setChoice] = useState(current === null ? "inherit" : current.length === 0 ? "none" : "own");
  const { rules = [], source = "Project default" } = inherited ?? {};
  const defaults = rules.length > 0 ? rules.map(ruleText).join(", ") : "none";
  return (
    <>
      <SelectField
        name="limits"
        label="Rate limits"
        optional
        options={[
          ["inherit", inherited ? `${source} (${defaults})` : source],
          ["none", "No limits"],
          ["own", "Custom limits"],
        ]}
        value={choice}
        onChange={setChoice}
      />
      <div hidden={choice !== "own"}>
        <TextAreaField
          name="rate_limits"
          label="Rules"
          mono
          rows={3}
          value={rulesText(current ?? [])}
          hint="One on each line: 100 / minute, or burst: 20 / 10 seconds per tenant."
        />
      </div>
    </>
  );
}

/** Null = inherited. Throws a problem that names the line. */
export function limitsOf({ limits = "inherit", rate_limits = "" }: Values): Rules | null {
  if (limits === "inherit") return null;
  if (limits === "none") return [];
  return rulesOf(rate_limits, "rate_limits");
}
