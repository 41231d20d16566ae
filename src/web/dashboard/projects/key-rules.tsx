// What a project says about its keys: the scopes it knows, and whether customers may rotate a key with the key itself.
import { plural } from "../../shared/format.ts";
import { CheckField, TextAreaField, TextField } from "../forms/field.tsx";
import { fieldProblem } from "../api/problems.ts";
import type { Values } from "../forms/form.tsx";
import { linesOf } from "../forms/lines.ts";
import { numberOf, numbersOf } from "../forms/number.ts";
import { Facts } from "../components/page.tsx";
import { UserText } from "../components/text.tsx";
import type { Project, ScopeCatalogue } from "../api/records.ts";

const NAME = "scope_catalogue";
const SEPARATOR = " | ";

const lineOf = ({ name, description, default: preselected }: ScopeCatalogue[number]): string =>
  `${preselected ? "* " : ""}${name}${description === null ? "" : SEPARATOR + description}`;

function parseLine(line: string): ScopeCatalogue[number] {
  const preselected = line.startsWith("* ");
  const [name = "", ...rest] = (preselected ? line.slice(2) : line).split(SEPARATOR);
  const description = rest.join(SEPARATOR).trim();
  return { name: name.trim(), description: description === "" ? null : description, default: preselected };
}

/** Names that the lines below cannot spell are edited by the API only. */
const isEditable = (catalogue: ScopeCatalogue): boolean =>
  JSON.stringify(catalogue.map(lineOf).map(parseLine)) ===
  JSON.stringify(
    catalogue.map(({ name, description, default: preselected }) => ({ name, description, default: preselected })),
  );

const DAYS = [
  ["default_ttl_days", "Days until a new key expires", "Unless it asks for another expiry."],
  ["max_ttl_days", "Longest lifetime of a new key, in days", "Existing keys keep their expiry."],
  [
    "idle_revoke_days",
    "Days after which an unused key is revoked",
    "At least 7. Only while your nodes report their requests.",
  ],
] as const;

export function KeyRulesFields({ project }: { project: Project }) {
  return (
    <>
      {isEditable(project.scope_catalogue) && (
        <TextAreaField
          name={NAME}
          label="Scopes"
          optional
          mono
          rows={4}
          value={project.scope_catalogue.map(lineOf).join("\n")}
          hint="One on each line: orders:read | Read orders. A star before it preselects it: * orders:read | Read orders."
        />
      )}
      {DAYS.map(([name, label, hint]) => (
        <TextField
          key={name}
          name={name}
          label={label}
          optional
          inputMode="numeric"
          value={project.key_policy[name]?.toString() ?? ""}
          hint={hint}
        />
      ))}
      <TextField
        name="notice_days"
        label="Days before expiry on which owners are mailed"
        optional
        value={project.key_policy.notice_days.join(", ")}
        hint="Up to five, such as 30, 7, 1."
      />
      <CheckField
        name="holder_rotate"
        label="Customers may rotate a key with the key itself"
        checked={project.key_policy.holder_rotate}
      />
    </>
  );
}

/** Throws a problem if a scope is named twice, or if days are no number. */
export function keyRulesOf(values: Values, project: Project) {
  const key_policy = {
    ...project.key_policy,
    default_ttl_days: numberOf(values, "default_ttl_days"),
    max_ttl_days: numberOf(values, "max_ttl_days"),
    idle_revoke_days: numberOf(values, "idle_revoke_days"),
    notice_days: numbersOf(values, "notice_days"),
    holder_rotate: values.holder_rotate === "true",
  };
  const { default_ttl_days: usual, max_ttl_days: longest } = key_policy;
  if (usual !== null && longest !== null && usual > longest)
    throw fieldProblem("default_ttl_days", "must not be longer than the longest lifetime");
  if (values[NAME] === undefined) return { key_policy };
  const scope_catalogue = linesOf(values[NAME]).map(parseLine);
  const names = scope_catalogue.map(({ name }) => name);
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined) throw fieldProblem(NAME, `: ${repeated} is listed twice`);
  return { key_policy, scope_catalogue };
}

const noticeText = (days: readonly number[]): string =>
  days.length === 0 ? "None" : `${days.join(", ")} ${days.join() === "1" ? "day" : "days"} before a key ends`;

const daysText = (days: number | null): string => (days === null ? "Never" : `After ${plural(days, "day")}`);

const lifetimeText = (days: number | null): string => (days === null ? "Any" : plural(days, "day"));

export function KeyRules({ project }: { project: Project }) {
  return (
    <>
      {project.scope_catalogue.length === 0 ? (
        <p class="muted">No scopes are listed, so a key may have any.</p>
      ) : (
        <ul class="plain-list">
          {project.scope_catalogue.map(({ name, description, default: preselected }) => (
            <li key={name}>
              <code>{name}</code> {description && <UserText>{description}</UserText>}{" "}
              {preselected && <span class="muted small">preselected</span>}
            </li>
          ))}
        </ul>
      )}
      <Facts
        facts={{
          "New keys expire": daysText(project.key_policy.default_ttl_days ?? project.key_policy.max_ttl_days),
          "Longest lifetime": lifetimeText(project.key_policy.max_ttl_days),
          "Unused keys are revoked": daysText(project.key_policy.idle_revoke_days),
          "Mail to owners": noticeText(project.key_policy.notice_days),
          "Rotation by customers": project.key_policy.holder_rotate ? "With the key itself" : "Off",
        }}
      />
    </>
  );
}
