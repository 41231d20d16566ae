// A search field whose text is in the address, a moment after typing stopped. A whole credential never gets there.
import { useEffect, useRef } from "preact/hooks";
import { param, setParams } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { credentialNote } from "../shell/credential-note.ts";

const TYPING_MS = 200;

/** `onCredential`: the text is a credential and has been removed from the field. */
export function SearchField({ label, onCredential }: { label: string; onCredential?: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const q = param("q");
  useEffect(() => {
    // The address changed by other means than typing.
    if (input.current && input.current !== document.activeElement) input.current.value = q;
  }, [q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (): void => {
    clearTimeout(timer.current);
    const text = input.current?.value.trim() ?? "";
    if (input.current && credentialNote(text) !== null) {
      input.current.value = "";
      onCredential?.(text);
      return;
    }
    timer.current = setTimeout(() => setParams({ q: text, after: null }, { replace: true }), TYPING_MS);
  };
  return (
    <div class="search">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        aria-label={label}
        placeholder={label}
        autocomplete="off"
        spellcheck={false}
        maxLength={100}
        defaultValue={q}
        onInput={search}
      />
    </div>
  );
}
