// A form submitted by script: sends one request at a time, shows each error next to its field and focuses the first.
import { h, type Child } from "../../shared/dom.ts";
import { ApiError } from "../api.ts";
import { errorMessage } from "../messages.ts";
import type { Field } from "./field.ts";

export type FormOptions = {
  label?: string;
  fields: readonly Field[];
  submit: string;
  /** Shown below the button. */
  footer?: Child;
  send: () => Promise<void>;
  /** Handles an error itself and returns true, or leaves it to the form. */
  onError?: (error: ApiError) => boolean;
};

export function form({ label, fields, submit, footer, send, onError }: FormOptions): HTMLFormElement {
  const alert = h("div", { role: "alert", class: "alert" });
  const button = h("button", { type: "submit", class: "main" }, submit);
  let busy = false;
  const setBusy = (now: boolean): void => {
    busy = now;
    button.textContent = now ? "Please wait…" : submit;
    if (now) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
  };
  const showError = (error: ApiError): void => {
    if (onError?.(error)) return;
    const unplaced = setErrors(fields, error.details);
    if (error.details.length === 0 || unplaced) alert.replaceChildren(h("p", {}, errorMessage(error)));
  };
  const onSubmit = async (): Promise<void> => {
    alert.replaceChildren();
    const missing = fields.filter((one) => one.isMissing());
    const details = missing.map(({ name }) => ({ path: name, message: "is required" }));
    setErrors(fields, details);
    if (missing.length > 0) return;
    setBusy(true);
    try {
      await send();
    } catch (error) {
      showError(error instanceof ApiError ? error : new ApiError(500));
    } finally {
      setBusy(false);
    }
  };
  return h(
    "form",
    {
      novalidate: true,
      method: "post",
      "aria-label": label,
      onsubmit: (event) => {
        event.preventDefault();
        if (!busy) void onSubmit();
      },
    },
    alert,
    ...fields.map(({ node }) => node),
    h("div", { class: "buttons" }, button),
    footer,
  );
}

/** Shows each error at its field and focuses the first. Returns true if an error has no field in this form. */
function setErrors(fields: readonly Field[], details: ApiError["details"]): boolean {
  const messages = new Map(details.map(({ path, message }) => [path, message]));
  let first: Field | undefined;
  for (const one of fields) {
    const message = messages.get(one.name) ?? null;
    one.setError(message);
    if (message !== null) first ??= one;
  }
  first?.focus();
  return details.some(({ path }) => !fields.some(({ name }) => name === path));
}
