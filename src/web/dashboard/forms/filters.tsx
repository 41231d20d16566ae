// Filters of a list. They are in the address; choosing one returns to the first page.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { param, setParams } from "../links.ts";
import { Button } from "../components/button.tsx";
import type { Option } from "./field.tsx";

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

type Named = { id: string; name: string };

/** `all`, each record by name, and the one in the address also while its name is not known. */
export function recordOptions(all: string, records: readonly Named[], chosen: string): Option[] {
  const options: Option[] = [["", all], ...records.map(({ id, name }) => [id, name] as const)];
  return options.some(([id]) => id === chosen) ? options : [...options, [chosen, chosen.slice(0, 8)]];
}

export const projectOptions = (projects: readonly Named[]): Option[] =>
  recordOptions("All projects", projects, param("project"));

/** Whether an empty list means that nothing matches. */
export const isFiltered = (names: readonly string[]): boolean => names.some((name) => param(name) !== "");

export const clearFilters = (names: readonly string[]): void =>
  setParams(Object.fromEntries([...names, "after"].map((name) => [name, null])));

/** `names`: the parameters that the filters inside set. On a phone many of them are behind a button. */
export function Filters(props: { label: string; names: readonly string[]; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const set = props.names.filter((name) => name !== "q" && param(name) !== "").length;
  return (
    <div class={isOpen ? "filters open" : "filters"} role="search" aria-label={props.label}>
      {props.children}
      <button type="button" class="button filters-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {set > 0 ? `Filters (${set})` : "Filters"}
      </button>
      {isFiltered(props.names) && (
        <Button kind="quiet" onClick={() => clearFilters(props.names)}>
          Clear filters
        </Button>
      )}
    </div>
  );
}
