// The dialogs: create, rotate, revoke, and the one that shows a new key. A key's text exists only while that one is
// open; Escape does not close it, because what it shows cannot be shown again.
import { ApiError, type Api } from "./api.ts";
import { h, icon, type Child } from "../shared/dom.ts";
import type { Words } from "./messages.ts";
import { grantedScopes, type Key, type NewKey, type Session } from "./types.ts";

const OVERLAPS = [0, 1, 24, 72, 168] as const;

export type Desk = {
  api: Api;
  words: Words;
  dialog: HTMLDialogElement;
  session: Session;
  explain(error: ApiError): string;
  /** A failure that ends the portal's work, not only this dialog's. */
  ended(error: ApiError): void;
  say(text: string): void;
  changed(what: "created" | "rotated" | "revoked", id: string): Promise<void>;
};

type Form = { title: string; body: Child[]; submit: string; danger?: boolean; work: () => Promise<void> };

/** A form that tells its own failures and cannot be sent twice. */
function ask(desk: Desk, { title, body, submit, danger, work }: Form): void {
  const { dialog, words } = desk;
  const trouble = h("div", { role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "main", part: "button" }, submit);
  const cancel = h(
    "button",
    { type: "button", class: "quiet", part: "button", onclick: () => dialog.close() },
    words.t("cancel"),
  );
  let busy = false;
  const send = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    go.setAttribute("aria-disabled", "true");
    trouble.replaceChildren();
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.trouble === "ended" || error.trouble === "origin") return desk.ended(error);
      trouble.replaceChildren(h("p", { class: "alert small" }, desk.explain(error)));
    } finally {
      busy = false;
      go.removeAttribute("aria-disabled");
    }
  };
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        void send();
      },
    },
    h("h2", { id: "dialog-title" }, title),
    ...body,
    trouble,
    h("div", { class: "buttons" }, cancel, go),
  );
  open(desk, form, false);
}

/** A new key stands in the dialog. */
export function isHeld(dialog: HTMLDialogElement): boolean {
  return dialog.open && dialog.getAttribute("closedby") === "none";
}

/** While a new key stands in the dialog only its own button closes it: neither Escape nor a gesture. */
export function holdOpen(dialog: HTMLDialogElement): void {
  const hold = (event: Event): void => {
    if (isHeld(dialog)) event.preventDefault();
  };
  dialog.addEventListener("cancel", hold);
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && hold(event));
}

function open({ dialog }: Desk, content: HTMLElement, mustAnswer: boolean): void {
  dialog.setAttribute("closedby", mustAnswer ? "none" : "closerequest");
  dialog.replaceChildren(content);
  if (!dialog.open) dialog.showModal();
  const first = ["[data-first]", "input, select"].map((one) => content.querySelector<HTMLElement>(one)).find(Boolean);
  first?.focus();
}

function field(words: Words, id: string, label: string, control: HTMLElement, hint?: string): HTMLElement {
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  const optional = control instanceof HTMLSelectElement ? null : ` (${words.t("optional")})`;
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label, optional && h("span", { class: "muted small" }, optional)),
    control,
    hint && h("span", { class: "muted small", id: `${id}-hint` }, hint),
  );
}

function text(maxlength: number): HTMLInputElement {
  return h("input", { type: "text", maxlength, autocomplete: "off", spellcheck: "false", part: "input" });
}

export function askCreate(desk: Desk): void {
  const { words } = desk;
  const name = text(200);
  const boxes = grantedScopes(desk.session).map((value) => h("input", { type: "checkbox", value }));
  const choices = h("div", { class: "choices" });
  for (const box of boxes) choices.append(h("label", { class: "check" }, box, h("code", {}, box.value)));
  const hint = h("span", { class: "muted small", id: "scopes-hint" }, words.t("scopesHint"));
  ask(desk, {
    title: words.t("create"),
    submit: words.t("create"),
    body: [
      field(words, "name", words.t("name"), name, words.t("nameHint")),
      boxes.length > 0 &&
        h("fieldset", { "aria-describedby": "scopes-hint" }, h("legend", {}, words.t("scopes")), hint, choices),
    ],
    work: async () => {
      const scopes = boxes.filter(({ checked }) => checked).map(({ value }) => value);
      const named = name.value.trim();
      const made = await desk.api.post<NewKey>("keys", { ...(named && { name: named }), scopes });
      desk.say(words.t("keyCreated"));
      show(desk, made);
      await desk.changed("created", made.id);
    },
  });
}

export function askRotate(desk: Desk, key: Key, name: string): void {
  const { words } = desk;
  const options = OVERLAPS.map((hours) =>
    h("option", { value: hours, selected: hours === 24 }, words.t(`overlap${hours}`)),
  );
  const overlap = h("select", { part: "input" }, ...options);
  ask(desk, {
    title: words.t("rotateTitle", { name }),
    submit: words.t("rotate"),
    body: [h("p", {}, words.t("rotateText")), field(words, "overlap", words.t("overlap"), overlap)],
    work: async () => {
      const overlap_hours = Number(overlap.value);
      const made = await desk.api.post<NewKey & { previous_key: Key }>(`keys/${key.id}/rotate`, { overlap_hours });
      desk.say(words.t("keyRotated"));
      const { display_prefix: prefix, expires_at } = made.previous_key;
      const time = expires_at ? words.time(expires_at) : "";
      show(desk, made, overlap_hours > 0 ? words.t("oldUntil", { prefix, time }) : undefined);
      await desk.changed("rotated", made.id);
    },
  });
}

export function askRevoke(desk: Desk, key: Key, name: string): void {
  const { words } = desk;
  const reason = text(500);
  ask(desk, {
    title: words.t("revokeTitle", { name }),
    submit: words.t("revokeDo"),
    danger: true,
    body: [
      h("p", {}, words.t("revokeText", { prefix: key.display_prefix })),
      field(words, "reason", words.t("reason"), reason),
    ],
    work: async () => {
      const why = reason.value.trim();
      await desk.api.post(`keys/${key.id}/revoke`, why ? { reason: why } : {});
      await desk.changed("revoked", key.id);
      desk.dialog.close();
      desk.say(words.t("keyRevoked"));
    },
  });
}

const COPY =
  "M5.5 5.5v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.5 5.5h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z";
const TICK = "M3 8.5l3.2 3.2L13 5";

function show(desk: Desk, made: NewKey, more?: string): void {
  const { words, dialog } = desk;
  const shown = h("textarea", { rows: 2, readonly: true, "aria-label": words.t("yourKey"), part: "secret" });
  shown.value = made.key;
  shown.addEventListener("focus", () => shown.select());
  const copy = h("button", { type: "button", class: "main", part: "button", "data-first": true });
  const label = (done: boolean): void =>
    copy.replaceChildren(icon(done ? TICK : COPY), words.t(done ? "copied" : "copy"));
  label(false);
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(made.key);
      label(true);
      desk.say(words.t("copied"));
    } catch {
      shown.focus();
      shown.select();
      desk.say(words.t("copyByHand"));
    }
  });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, words.t("shownTitle")),
    h("p", { class: "note" }, words.t("shownText")),
    shown,
    more && h("p", { class: "small" }, more),
    h("div", { class: "buttons" }, copy, h("button", { type: "submit", part: "button" }, words.t("stored"))),
  );
  dialog.addEventListener("close", () => dialog.replaceChildren(), { once: true });
  open(desk, form, true);
}
