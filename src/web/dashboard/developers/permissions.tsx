// What a secret key may do: everything that its environment allows, or only some of it.
import { useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { fieldProblem } from "../api/problems.ts";
import { CheckField, SelectField } from "../forms/field.tsx";
import { projectOptions } from "../forms/filters.tsx";
import type { Values } from "../forms/form.tsx";
import { useProjects } from "../api/records.ts";

type Permission = NonNullable<RouteOutput<"GET /v1/secret_keys/{id}">["permissions"]>[number];

const PERMISSIONS: readonly (readonly [name: Permission, label: string])[] = [
  ["verify", "Verify keys: for nodes and gateways"],
  ["portal", "Create portal tokens"],
  ["read", "Read everything except members and invitations"],
  ["manage", "Read, and create and change tenants and keys"],
];

const fieldOf = (name: Permission): string => `permission_${name}`;

export function PermissionsField() {
  const [access, setAccess] = useState("all");
  const projects = useProjects();
  const options = projectOptions(projects);
  return (
    <>
      <SelectField
        name="permissions"
        label="Access"
        options={[
          ["all", "Everything"],
          ["some", "Restricted"],
        ]}
        value={access}
        onChange={setAccess}
        hint={access === "all" ? "A process that only verifies keys needs less." : undefined}
      />
      {access === "some" && (
        <>
          <fieldset class="field">
            <legend class="field-label">Permissions</legend>
            {PERMISSIONS.map(([name, label]) => (
              <CheckField key={name} name={fieldOf(name)} label={label} checked={name === "verify"} />
            ))}
          </fieldset>
          <SelectField name="project_ids" label="Projects" optional options={options} value="" />
        </>
      )}
    </>
  );
}

/** The fields of the request; none for a key that may do everything. Throws a problem if it may do nothing. */
export function permissionsOf(values: Values): { permissions?: Permission[]; project_ids?: string[] } {
  if (values.permissions !== "some") return {};
  const permissions = PERMISSIONS.map(([name]) => name).filter((name) => values[fieldOf(name)] === "true");
  if (permissions.length === 0) throw fieldProblem("permissions", ": choose at least one permission");
  return { permissions, ...(values.project_ids && { project_ids: [values.project_ids] }) };
}
