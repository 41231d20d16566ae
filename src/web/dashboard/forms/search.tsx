// Fields whose text is in the address, a moment after typing stopped. A whole credential never gets there.
import { useEffect, useRef } from "preact/hooks";
import { param, setParams } from "../links.ts";
import { Icon } from "../components/icon.tsx";
import { credentialNote } from "./credential-note.ts";

const TYPING_MS = 200;

type TypedProps = {
  label: string;
  /** Name of the parameter in the address. */
  name: string;
  type?: "search" | "text";
  /** The text is a credential and has been removed from the field. */
  onCredential?: ((text: string) => void) | undefined;
};

/** For values that cannot be listed. */
export function TextFilter({ label, name, type = "text", onCredential }: TypedProps) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const value = param(name);
  const sent = useRef(value);
  useEffect(() => {
    if (value === sent.current || !input.current) return;
    // The address changed by other means than typing.
    clearTimeout(timer.current);
    sent.current = input.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const filter = (): void => {
    clearTimeout(timer.current);
    const text = input.current?.value.trim() ?? "";
    const note = credentialNote(text);
    if (input.current && note !== null) {
      input.current.value = "";
      if (onCredential) return onCredential(text);
      input.current.setCustomValidity(note);
      input.current.reportValidity();
      return;
    }
    input.current?.setCustomValidity("");
    timer.current = setTimeout(() => {
      sent.current = text;
      setParams({ [name]: text, after: null }, { replace: true });
    }, TYPING_MS);
  };
  return (
    <input
      ref={input}
      type={type}
      aria-label={label}
      placeholder={label}
      autocomplete="off"
      spellcheck={false}
      maxLength={type === "search" ? 100 : 200}
      defaultValue={value}
      onInput={filter}
    />
  );
}

export function SearchField(props: Pick<TypedProps, "label" | "onCredential">) {
  return (
    <div class="search">
      <Icon name="search" />
      <TextFilter {...props} name="q" type="search" />
    </div>
  );
}
