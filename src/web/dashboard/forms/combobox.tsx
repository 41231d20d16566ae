// A text field that suggests records while one types, after the ARIA pattern for comboboxes. The chosen record's id is
// what the form sends.
import type { ComponentChildren, InputHTMLAttributes } from "preact";
import { useContext, useEffect, useId, useState } from "preact/hooks";
import { plural } from "../../shared/format.ts";
import type { Suggestion } from "../api/records.ts";
import { Announcement } from "./announcement.tsx";
import { describedBy, FieldNotes } from "./field.tsx";
import { FormContext } from "./form.tsx";

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

/** `text`: what was searched for; null before the first response. */
type Found = { text: string | null; list: readonly Suggestion[]; isFailed?: true };

/** What matches the text; older searches are aborted. */
function useSuggestions(text: string, open: boolean, search: ComboboxProps["search"]): Found {
  const [found, setFound] = useState<Found>({ text: null, list: [] });
  useEffect(() => {
    if (!open) return;
    const abort = new AbortController();
    const show = (next: Found): void => {
      if (!abort.signal.aborted) setFound(next);
    };
    const run = (): void => {
      search(text.trim(), abort.signal).then(
        (list) => show({ text, list }),
        () => show({ text, list: [], isFailed: true }),
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

function words({ text, list, isFailed }: Found): string {
  if (isFailed) return "The search failed. Type again to repeat it.";
  if (list.length > 0) return plural(list.length, "suggestion");
  return text === null ? "Searching…" : "Nothing found";
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

/** `moved`: where the arrow keys went. `isRefused`: Enter was pressed, but the text names no record. */
type Typing = { text: string | null; moved?: number; isRefused?: boolean };

/** What is typed and suggested while the list is open. `text` is null while it is closed. */
function useTyping({ name, chosen, onChoose, search }: ComboboxProps) {
  const { onChanged } = useContext(FormContext);
  const [{ text, moved, isRefused }, setTyping] = useState<Typing>({ text: null });
  const open = text !== null;
  // The chosen record's name is there to be replaced: it searches for nothing.
  const sought = text === null || text === chosen?.label ? "" : text;
  const suggestions = useSuggestions(sought, open, search);
  const found = suggestions.list;
  const only = found.length === 1 ? found[0] : undefined;
  // Without a text, at the choice; at none if that is not listed, so that Enter does not replace it.
  const at = moved ?? (chosen && sought === "" ? found.findIndex(({ id }) => id === chosen.id) : 0);
  const edit = (typed: string | null): void => setTyping({ text: typed });
  const update = (one: Suggestion | null, typed: string | null): void => {
    onChoose(one);
    onChanged(name);
    edit(typed);
  };
  const choose = (one: Suggestion): void => update(one, null);
  const show = (): void => edit(chosen?.label ?? "");
  const close = (): void => edit(null);
  const press = (key: string): boolean => {
    const one = found[at];
    const next = { ArrowDown: Math.min(found.length - 1, at + 1), ArrowUp: Math.max(0, at - 1) }[key];
    if (open && next !== undefined) setTyping({ text, moved: next });
    else if (key === "ArrowDown") show();
    else if (open && key === "Escape") close();
    // Not from the suggestions for an earlier text, and the form is not sent with a choice that is not shown.
    else if (open && key === "Enter" && (one || sought)) {
      if (one && suggestions.text === sought) choose(one);
      else setTyping({ text, isRefused: sought !== "" });
    } else return false;
    return true;
  };
  const input: InputHTMLAttributes<HTMLInputElement> = {
    value: text ?? chosen?.label ?? "",
    // The choice stays until another is made, or the text is emptied.
    onInput: ({ currentTarget: { value } }) => (value === "" ? update(null, value) : edit(value)),
    onClick: ({ currentTarget }) => {
      if (open) return;
      show();
      currentTarget.select();
    },
    // In a form, a text that names one record chooses it, as Enter would. Other choices are in the address, and blur
    // also comes when the page is left: the address is that of another page then.
    onBlur: ({ currentTarget: { form } }) =>
      form && sought && only && suggestions.text === sought ? choose(only) : close(),
    onKeyDown: (event) => {
      if (!press(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
    },
  };
  return { open, at, isRefused, suggestions, choose, input };
}

export function Combobox(props: ComboboxProps) {
  const { name, label, hint, placeholder, optional = false, isFilter = false, chosen } = props;
  const required = optional || isFilter ? undefined : "true";
  const id = useId();
  const { open, at, isRefused, suggestions, choose, input } = useTyping(props);
  const found = suggestions.list;
  const isListed = open && found.length > 0;
  const { errors } = useContext(FormContext);
  const error = isRefused ? "must be chosen from the list" : errors.get(name);
  return (
    <div class="field combobox">
      <label for={id} class={isFilter ? "hide" : undefined}>
        {label}
      </label>
      <input type="hidden" name={name} value={chosen?.id ?? ""} aria-required={required} />
      <input
        id={id}
        role="combobox"
        autocomplete="off"
        placeholder={placeholder}
        aria-expanded={isListed}
        aria-controls={isListed ? `${id}-list` : undefined}
        aria-activedescendant={isListed && at >= 0 ? `${id}-list-${at}` : undefined}
        aria-autocomplete="list"
        aria-required={required}
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={describedBy(id, error, hint)}
        {...input}
      />
      {isListed && <Suggestions id={`${id}-list`} label={label} found={found} at={at} choose={choose} />}
      <Announcement words={open ? words(suggestions) : ""} isShown={open && !isListed} />
      <FieldNotes id={id} label={label} error={error} hint={hint} />
    </div>
  );
}
