// One labelled control with its hint and its error. The error is tied to the control, so it is read out with it.
import { freshId, h } from "../dom.ts";
import { fieldProblem } from "../messages.ts";

export type FieldOptions = {
  /** The name of the wire field: refusals find it by their path. */
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
  /** Shows what the API said about it ("must have …"), or nothing. */
  complain(message: string | null): string;
  /** Whether something is missing; it then says so itself. */
  isMissing(): boolean;
};

export function field({ name, label, type = "text", autocomplete, hint, optional = false }: FieldOptions): Field {
  const id = freshId(name);
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
  const complain = (message: string | null): string => {
    error.textContent = message === null ? "" : fieldProblem(label, message);
    error.hidden = message === null;
    if (message === null) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    const described = [message === null ? null : error.id, describedBy].filter((part) => part !== null).join(" ");
    if (described === "") input.removeAttribute("aria-describedby");
    else input.setAttribute("aria-describedby", described);
    return error.textContent;
  };
  const node = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label, optional && h("span", { class: "muted" }, " (optional)")),
    h("div", { class: "control" }, input, type === "password" && revealer(input, label)),
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
    complain,
    isMissing: () => !optional && input.value === "",
  };
}

/** Seeing what one types makes a second password field needless. */
function revealer(input: HTMLInputElement, label: string): HTMLButtonElement {
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
