// Filters of a list. They are in the address; choosing one returns to the first page.
import type { ComponentChildren } from "preact";
import { param, setParams } from "../here.ts";
import { Button } from "../parts/button.tsx";
import type { Option } from "./field.tsx";
import { credentialNote } from "../shell/credential-note.ts";

type SelectProps = {
  /** Name of the parameter in the address. */
  name: string;
  label: string;
  /** The first is chosen where the address has none of them. */
  options: readonly Option[];
  chosen?: string;
};

export function SelectFilter({ name, label, options, chosen = param(name) }: SelectProps) {
  return (
    <select aria-label={label} onChange={(event) => setParams({ [name]: event.currentTarget.value, after: null })}>
      {options.map(([value, text]) => (
        <option key={value} value={value} selected={value === chosen}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** For values that cannot be listed. A credential does not get into the address. */
export function TextFilter({ name, label }: { name: string; label: string }) {
  const filter = (text: string): void => {
    if (credentialNote(text) === null) setParams({ [name]: text, after: null });
  };
  return (
    <input
      type="text"
      aria-label={label}
      placeholder={label}
      autocomplete="off"
      spellcheck={false}
      value={param(name)}
      onChange={(event) => filter(event.currentTarget.value.trim())}
    />
  );
}

/** "All projects", and each by name. */
export const projectOptions = (projects: readonly { id: string; name: string }[]): Option[] => [
  ["", "All projects"],
  ...projects.map(({ id, name }) => [id, name] as const),
];

const isSet = (names: readonly string[]): boolean => names.some((name) => param(name) !== "");

/** Whether an empty list means that nothing matches. */
export const isFiltered = (names: readonly string[]): boolean => isSet([...names, "after"]);

export const clearFilters = (names: readonly string[]): void =>
  setParams(Object.fromEntries([...names, "after"].map((name) => [name, null])));

/** `names`: the parameters that the filters inside set. */
export function Filters(props: { label: string; names: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="filters" role="search" aria-label={props.label}>
      {props.children}
      {isSet(props.names) && (
        <Button kind="quiet" onClick={() => clearFilters(props.names)}>
          Clear filters
        </Button>
      )}
    </div>
  );
}
