// A form that is sent by script: it waits for one answer at a time, puts each complaint next to its field and moves the
// focus to the first one.
import { Refused } from "../api.ts";
import { h, type Child } from "../dom.ts";
import { refusalInWords } from "../messages.ts";
import type { Field } from "./field.ts";

export type FormOptions = {
  label?: string;
  fields: readonly Field[];
  submit: string;
  /** Stands below the button. */
  after?: Child;
  send: () => Promise<void>;
  /** Refusals that this form has a better answer to; true when it gave one. */
  refused?: (refusal: Refused) => boolean;
};

export function form({ label, fields, submit, after, send, refused }: FormOptions): HTMLFormElement {
  const alert = h("div", { role: "alert", class: "alert" });
  const button = h("button", { type: "submit", class: "main" }, submit);
  let busy = false;
  const setBusy = (now: boolean): void => {
    busy = now;
    button.textContent = now ? "One moment…" : submit;
    if (now) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
  };
  const show = (refusal: Refused): void => {
    if (refused?.(refusal)) return;
    const unplaced = complainAll(fields, refusal.details);
    if (refusal.details.length === 0 || unplaced) alert.replaceChildren(h("p", {}, refusalInWords(refusal)));
  };
  const onSubmit = async (): Promise<void> => {
    alert.replaceChildren();
    const missing = fields.filter((one) => one.isMissing());
    const details = missing.map(({ name }) => ({ path: name, message: "is required" }));
    complainAll(fields, details);
    if (missing.length > 0) return;
    setBusy(true);
    try {
      await send();
    } catch (error) {
      show(error instanceof Refused ? error : new Refused(500));
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
    after,
  );
}

/** Puts each complaint at its field; true when one has no field here. */
function complainAll(fields: readonly Field[], details: Refused["details"]): boolean {
  const complaints = new Map(details.map(({ path, message }) => [path, message]));
  let first: Field | undefined;
  for (const one of fields) {
    const message = complaints.get(one.name) ?? null;
    one.complain(message);
    if (message !== null) first ??= one;
  }
  first?.focus();
  return details.some(({ path }) => !fields.some(({ name }) => name === path));
}
