// A labelled input with its hint and its error. Both describe the input, so that screen readers announce them with it.
import { h, uniqueId } from "../../shared/dom.ts";
import { fieldMessage } from "../messages.ts";

export type FieldOptions = {
  /** Name of the API field: error details refer to it. */
  name: string;
  label: string;
  type?: "email" | "password" | "text";
  autocomplete: string;
  hint?: string;
  optional?: boolean;
};

export type Field = {
  name: string;
  node: HTMLElement;
  value(): string;
  set(value: string): void;
  focus(): void;
  /** Shows the API's message ("must have …"), or clears it. */
  setError(message: string | null): void;
  isMissing(): boolean;
};

export function field({ name, label, type = "text", autocomplete, hint, optional = false }: FieldOptions): Field {
  const id = uniqueId(name);
  const describedBy = hint ? `${id}-hint` : null;
  const input = h("input", {
    id,
    name,
    type,
    autocomplete,
    "aria-required": optional ? null : "true",
    "aria-describedby": describedBy,
    ...(type !== "text" && { autocapitalize: "none", spellcheck: "false" }),
  });
  const error = h("p", { id: `${id}-error`, class: "error", hidden: true });
  const setError = (message: string | null): void => {
    error.textContent = message === null ? "" : fieldMessage(label, message);
    error.hidden = message === null;
    if (message === null) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    const described = [message === null ? null : error.id, describedBy].filter((part) => part !== null).join(" ");
    if (described === "") input.removeAttribute("aria-describedby");
    else input.setAttribute("aria-describedby", described);
  };
  const node = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label, optional && h("span", { class: "muted" }, " (optional)")),
    h("div", { class: "control" }, input, type === "password" && revealButton(input, label)),
    error,
    hint && h("p", { id: `${id}-hint`, class: "hint" }, hint),
  );
  return {
    name,
    node,
    value: () => (type === "password" ? input.value : input.value.trim()),
    set: (value) => {
      input.value = value;
    },
    focus: () => input.focus(),
    setError,
    isMissing: () => !optional && input.value === "",
  };
}

/** Shows or hides the password. It replaces a second field for confirmation. */
function revealButton(input: HTMLInputElement, label: string): HTMLButtonElement {
  const button = h("button", {
    type: "button",
    class: "reveal",
    "aria-pressed": "false",
    "aria-label": `Show: ${label}`,
    onclick: () => {
      const shown = input.type === "password";
      input.type = shown ? "text" : "password";
      button.setAttribute("aria-pressed", String(shown));
      button.textContent = shown ? "Hide" : "Show";
    },
  });
  button.textContent = "Show";
  return button;
}
