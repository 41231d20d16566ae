// A text field that suggests records while one types, after the ARIA pattern for comboboxes. The chosen record's id is
// what the form sends.
import type { ComponentChildren } from "preact";
import { useContext, useEffect, useId, useRef, useState } from "preact/hooks";
import { FieldNotes } from "./field.tsx";
import { FormContext } from "./form.tsx";

export type Suggestion = { id: string; label: string; hint?: string };

export type ComboboxProps = {
  name: string;
  label: string;
  hint?: ComponentChildren;
  placeholder?: string;
  chosen: Suggestion | null;
  onChoose: (chosen: Suggestion | null) => void;
  search: (text: string, abort: AbortSignal) => Promise<readonly Suggestion[]>;
};

const DEBOUNCE_MS = 150;

/** What matches the text; older searches are aborted. */
function useSuggestions(text: string, open: boolean, search: ComboboxProps["search"]) {
  const [found, setFound] = useState<readonly Suggestion[]>([]);
  useEffect(() => {
    if (!open) return;
    const abort = new AbortController();
    const run = (): void => {
      search(text.trim(), abort.signal).then(
        (list) => !abort.signal.aborted && setFound(list),
        () => {},
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

type ListProps = {
  id: string;
  label: string;
  found: readonly Suggestion[];
  at: number;
  choose: (one: Suggestion) => void;
};

function Suggestions({ id, label, found, at, choose }: ListProps) {
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
          {one.hint && <span class="muted small">{one.hint}</span>}
        </li>
      ))}
      {found.length === 0 && <li class="muted small">Nothing found</li>}
    </ul>
  );
}

export function Combobox({ name, label, hint, placeholder, chosen, onChoose, search }: ComboboxProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState<string | null>(null);
  const [at, setAt] = useState(-1);
  const open = text !== null;
  const found = useSuggestions(text ?? "", open, search);
  const error = useContext(FormContext).errors.get(name);
  const choose = (one: Suggestion): void => {
    onChoose(one);
    setText(null);
    setAt(-1);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const one = found[at];
    const last = found.length - 1;
    if (event.key === "ArrowDown") setAt(open ? Math.min(last, at + 1) : 0);
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Escape" && open) setText(null);
    else if (event.key === "Enter" && open && one) choose(one);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (!open && event.key === "ArrowDown") setText("");
  };
  const described = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`]
    .filter(Boolean)
    .join(" ");
  return (
    <div class="field combobox">
      <label for={id}>{label}</label>
      <input type="hidden" name={name} value={chosen?.id ?? ""} />
      <input
        ref={input}
        id={id}
        role="combobox"
        autocomplete="off"
        placeholder={placeholder}
        aria-expanded={open}
        aria-controls={`${id}-list`}
        aria-activedescendant={open && at >= 0 ? `${id}-list-${at}` : undefined}
        aria-autocomplete="list"
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={described || undefined}
        value={text ?? chosen?.label ?? ""}
        onInput={(event) => {
          onChoose(null);
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onClick={() => !open && setText(chosen ? null : "")}
        onBlur={() => setText(null)}
        onKeyDown={onKeyDown}
      />
      {open && <Suggestions id={`${id}-list`} label={label} found={found} at={at} choose={choose} />}
      <FieldNotes id={id} label={label} error={error} hint={hint} />
    </div>
  );
}
