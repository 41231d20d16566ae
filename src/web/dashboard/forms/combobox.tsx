// A text field that suggests records while one types, after the ARIA pattern for comboboxes. The chosen record's id is
// what the form sends.
import type { ComponentChildren } from "preact";
import { useContext, useEffect, useId, useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import { Announcement } from "./announcement.tsx";
import { describedBy, FieldNotes } from "./field.tsx";
import { FormContext } from "./form.tsx";

export type Suggestion = { id: string; label: string; hint?: string };

type ComboboxProps = {
  name: string;
  label: string;
  hint?: ComponentChildren;
  placeholder?: string;
  optional?: boolean;
  /** A filter of a list: its label is for screen readers only. */
  isFilter?: boolean;
  chosen: Suggestion | null;
  onChoose: (chosen: Suggestion | null) => void;
  search: (text: string, abort: AbortSignal) => Promise<readonly Suggestion[]>;
};

const DEBOUNCE_MS = 150;

/** `text`: what was searched for. */
type Found = { text: string | null; list: readonly Suggestion[]; state: "searching" | "found" | "failed" };

/** What matches the text; older searches are aborted. */
function useSuggestions(text: string, open: boolean, search: ComboboxProps["search"]): Found {
  const [found, setFound] = useState<Found>({ text: null, list: [], state: "searching" });
  useEffect(() => {
    if (!open) return;
    const abort = new AbortController();
    const show = (next: Found): void => {
      if (!abort.signal.aborted) setFound(next);
    };
    const run = (): void => {
      search(text.trim(), abort.signal).then(
        (list) => show({ text, list, state: "found" }),
        () => show({ text, list: [], state: "failed" }),
      );
    };
    const timer = setTimeout(run, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, open]);
  return found;
}

function words({ list, state }: Found): string {
  if (state === "failed") return "The search failed. Type again to repeat it.";
  if (list.length > 0) return plural(list.length, "suggestion");
  return state === "found" ? "Nothing found" : "Searching…";
}

type ListProps = {
  id: string;
  label: string;
  found: readonly Suggestion[];
  at: number;
  choose: (one: Suggestion) => void;
};

function Suggestions({ id, label, found, at, choose }: ListProps) {
  useEffect(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  return (
    <ul id={id} role="listbox" aria-label={label} class="suggestions">
      {found.map((one, i) => (
        <li
          key={one.id}
          id={`${id}-${i}`}
          role="option"
          aria-selected={i === at}
          // Before the field loses its focus.
          onMouseDown={(event) => {
            event.preventDefault();
            choose(one);
          }}
        >
          <bdi>{one.label}</bdi>
          {one.hint && <bdi class="muted small">{one.hint}</bdi>}
        </li>
      ))}
    </ul>
  );
}

type NameProps = { id: string; of: ComboboxProps; required: "true" | undefined };

/** The label, and the field that the form reads. */
function Name({ id, of: { name, label, chosen, isFilter }, required }: NameProps) {
  return (
    <>
      <label for={id} class={isFilter ? "hide" : undefined}>
        {label}
      </label>
      <input type="hidden" name={name} value={chosen?.id ?? ""} aria-required={required} />
    </>
  );
}

export function Combobox(props: ComboboxProps) {
  const { name, label, hint, placeholder, optional = false, isFilter = false, chosen, onChoose, search } = props;
  const required = optional || isFilter ? undefined : "true";
  const id = useId();
  const [text, setText] = useState<string | null>(null);
  const [at, setAt] = useState(0);
  const open = text !== null;
  const suggestions = useSuggestions(text ?? "", open, search);
  const found = suggestions.list;
  const isListed = open && found.length > 0;
  const { errors, onChanged } = useContext(FormContext);
  const error = errors.get(name);
  const update = (one: Suggestion | null, typed: string | null): void => {
    onChoose(one);
    onChanged(name);
    setText(typed);
    setAt(0);
  };
  const choose = (one: Suggestion): void => update(one, null);
  const onKeyDown = ({ key }: KeyboardEvent): boolean => {
    const one = found[at];
    const next = { ArrowDown: Math.min(found.length - 1, at + 1), ArrowUp: Math.max(0, at - 1) }[key];
    if (open && next !== undefined) setAt(next);
    else if (key === "ArrowDown") setText("");
    else if (open && key === "Escape") setText(null);
    // Not from the suggestions for an earlier text.
    else if (open && key === "Enter" && one) void (suggestions.text === text && choose(one));
    else return false;
    return true;
  };
  return (
    <div class="field combobox">
      <Name id={id} of={props} required={required} />
      <input
        id={id}
        role="combobox"
        autocomplete="off"
        placeholder={placeholder}
        aria-expanded={isListed}
        aria-controls={isListed ? `${id}-list` : undefined}
        aria-activedescendant={isListed ? `${id}-list-${at}` : undefined}
        aria-autocomplete="list"
        aria-required={required}
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={describedBy(id, error, hint)}
        value={text ?? chosen?.label ?? ""}
        onInput={(event) => update(null, event.currentTarget.value)}
        onClick={() => !open && setText(chosen ? null : "")}
        onBlur={() => setText(null)}
        onKeyDown={(event) => {
          if (!onKeyDown(event)) return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      {isListed && <Suggestions id={`${id}-list`} label={label} found={found} at={at} choose={choose} />}
      <Announcement words={open ? words(suggestions) : ""} isShown={open && !isListed} />
      <FieldNotes id={id} label={label} error={error} hint={hint} />
    </div>
  );
}
