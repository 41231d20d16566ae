// The dialogs: create, rotate, revoke, and the one that shows a new key. The key's text is in the page only while that
// dialog is open. Escape does not close it, because the key cannot be shown again.
import { h, icon, type Child } from "../shared/dom.ts";
import { ApiError, type Api } from "./api.ts";
import type { Messages } from "./messages.ts";
import { grantedScopes, type Key, type NewKey, type Session } from "./types.ts";

const HOUR_MS = 3_600_000;
const OVERLAP_HOURS = [0, 1, 24, 72, 168] as const;

/** What the dialogs need from the portal. */
export type DialogContext = {
  api: Api;
  messages: Messages;
  dialog: HTMLDialogElement;
  session: Session;
  explain(error: ApiError): string;
  /** The error ends the whole portal, not only the dialog. */
  onAccessEnded(error: ApiError): void;
  /** Announces a text to screen readers. */
  announce(text: string): void;
  /** Null: it is unknown whether anything has changed. */
  onChanged(what: "created" | "rotated" | "revoked" | null, id: string): Promise<void>;
};

type FormOptions = { title: string; body: Child[]; submit: string; danger?: boolean; send: () => Promise<void> };

/** Opens a form that shows its own errors and cannot be submitted twice. */
function openForm(context: DialogContext, { title, body, submit, danger, send }: FormOptions): void {
  const { dialog, messages } = context;
  const alert = h("div", { role: "alert" });
  const button = h("button", { type: "submit", class: danger ? "danger" : "main", part: "button" }, submit);
  const cancel = h(
    "button",
    { type: "button", class: "quiet", part: "button", "data-first": danger ?? false, onclick: () => dialog.close() },
    messages.t("cancel"),
  );
  let busy = false;
  const onSubmit = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    button.setAttribute("aria-disabled", "true");
    alert.replaceChildren();
    try {
      await send();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.kind === "ended" || error.kind === "origin") return context.onAccessEnded(error);
      alert.replaceChildren(h("p", { class: "alert small" }, context.explain(error)));
      if (error.kind === "network") void context.onChanged(null, "");
    } finally {
      busy = false;
      button.removeAttribute("aria-disabled");
    }
  };
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        void onSubmit();
      },
    },
    h("h2", { id: "dialog-title" }, title),
    ...body,
    alert,
    h("div", { class: "buttons" }, cancel, button),
  );
  openDialog(context, form, false);
}

/** The same key for the same body: a repeated request returns the first response. Empty if no key may be sent. */
function idempotencyKeys({ accepts_idempotency_key }: Session): (body: object) => string {
  let [last, key] = ["", ""];
  return (body) => {
    if (!accepts_idempotency_key) return "";
    const text = JSON.stringify(body);
    if (text !== last) key = crypto.getRandomValues(new BigUint64Array(2)).join("-");
    last = text;
    return key;
  };
}

export function isShowingKey(dialog: HTMLDialogElement): boolean {
  return dialog.open && dialog.getAttribute("closedby") === "none";
}

/** While the dialog shows a new key, only its button closes it: neither Escape nor a gesture. */
export function preventClosing(dialog: HTMLDialogElement): void {
  const prevent = (event: Event): void => {
    if (isShowingKey(dialog)) event.preventDefault();
  };
  dialog.addEventListener("cancel", prevent);
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && prevent(event));
}

function openDialog({ dialog }: DialogContext, content: HTMLElement, showsKey: boolean): void {
  dialog.setAttribute("closedby", showsKey ? "none" : "closerequest");
  // What is outside of a modal dialog is not announced.
  dialog.replaceChildren(content, h("div", { class: "hide", role: "status" }));
  if (!dialog.open) dialog.showModal();
  const first = ["[data-first]", "input, select"].map((one) => content.querySelector<HTMLElement>(one)).find(Boolean);
  first?.focus();
}

/**
 * Announces a text to screen readers, in the region of the dialog while it is open. The region is emptied first: a
 * repeated text is not announced.
 */
export function announce(text: string, dialog: HTMLDialogElement, status: HTMLElement): void {
  const say = (words: string): void => {
    const region = dialog.open && dialog.querySelector("[role=status]");
    (region || status).textContent = words;
  };
  say("");
  requestAnimationFrame(() => say(text));
}

function field(messages: Messages, id: string, label: string, control: HTMLElement, hint?: string): HTMLElement {
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  const optional = control instanceof HTMLSelectElement ? null : ` (${messages.t("optional")})`;
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label, optional && h("span", { class: "muted small" }, optional)),
    control,
    hint && h("span", { class: "muted small", id: `${id}-hint` }, hint),
  );
}

function textInput(maxlength: number): HTMLInputElement {
  return h("input", { type: "text", maxlength, autocomplete: "off", spellcheck: "false", part: "input" });
}

export function createDialog(context: DialogContext): void {
  const { messages } = context;
  const name = textInput(200);
  const catalogue = new Map(context.session.scope_catalogue?.map((entry) => [entry.name, entry]));
  const boxes = grantedScopes(context.session).map((value) =>
    h("input", { type: "checkbox", value, checked: catalogue.get(value)?.default === true }),
  );
  const choices = h("div", { class: "choices" });
  for (const box of boxes) {
    const description = catalogue.get(box.value)?.description;
    const words = description && h("span", { class: "muted small" }, ` ${description}`);
    choices.append(h("label", { class: "check" }, box, h("span", {}, h("code", {}, box.value), words)));
  }
  const hint = h("span", { class: "muted small", id: "scopes-hint" }, messages.t("scopesHint"));
  const days = context.session.default_ttl_days;
  const keyFor = idempotencyKeys(context.session);
  openForm(context, {
    title: messages.t("create"),
    submit: messages.t("create"),
    body: [
      field(messages, "name", messages.t("name"), name, messages.t("nameHint")),
      boxes.length > 0 &&
        h("fieldset", { "aria-describedby": "scopes-hint" }, h("legend", {}, messages.t("scopes")), hint, choices),
      typeof days === "number" &&
        h("p", { class: "muted small" }, messages.t(days === 1 ? "expiresAfterOne" : "expiresAfter", { days })),
    ],
    send: async () => {
      const scopes = boxes.filter(({ checked }) => checked).map(({ value }) => value);
      const trimmed = name.value.trim();
      const body = { ...(trimmed && { name: trimmed }), scopes };
      const created = await context.api.post<NewKey>("keys", body, keyFor(body));
      context.announce(messages.t("keyCreated"));
      showKey(context, created);
      await context.onChanged("created", created.id);
    },
  });
}

export function rotateDialog(context: DialogContext, key: Key, name: string): void {
  const { messages } = context;
  const { expires_at: expiry } = key;
  // A rotation does not extend the old key: beyond its expiry there is one choice, whose hours the server cuts.
  const left = expiry === null ? Number.POSITIVE_INFINITY : Date.parse(expiry) - Date.now();
  const options = OVERLAP_HOURS.filter((hours) => hours * HOUR_MS < left).map((hours) =>
    h("option", { value: hours, selected: hours === 24 }, messages.t(`overlap${hours}`)),
  );
  if (expiry !== null && options.length < OVERLAP_HOURS.length)
    options.push(
      h(
        "option",
        { value: 168, selected: left <= 24 * HOUR_MS },
        messages.t("overlapExpiry", { time: messages.time(expiry) }),
      ),
    );
  const keyFor = idempotencyKeys(context.session);
  const overlap = h("select", { part: "input" }, ...options);
  openForm(context, {
    title: messages.t("rotateTitle", { name }),
    submit: messages.t("rotate"),
    body: [h("p", {}, messages.t("rotateText")), field(messages, "overlap", messages.t("overlap"), overlap)],
    send: async () => {
      const body = { overlap_hours: Number(overlap.value) };
      const path = `keys/${key.id}/rotate`;
      const created = await context.api.post<NewKey & { previous_key: Key }>(path, body, keyFor(body));
      context.announce(messages.t("keyRotated"));
      const { display_prefix: prefix, expires_at } = created.previous_key;
      const time = expires_at ? messages.time(expires_at) : "";
      showKey(context, created, body.overlap_hours > 0 ? messages.t("oldUntil", { prefix, time }) : undefined);
      await context.onChanged("rotated", created.id);
    },
  });
}

export function revokeDialog(context: DialogContext, key: Key, name: string): void {
  const { messages } = context;
  const reason = textInput(500);
  openForm(context, {
    title: messages.t("revokeTitle", { name }),
    submit: messages.t("revokeDo"),
    danger: true,
    body: [
      h("p", {}, messages.t("revokeText", { prefix: key.display_prefix })),
      field(messages, "reason", messages.t("reason"), reason),
    ],
    send: async () => {
      const text = reason.value.trim();
      await context.api.post(`keys/${key.id}/revoke`, text ? { reason: text } : {});
      await context.onChanged("revoked", key.id);
      context.dialog.close();
      context.announce(messages.t("keyRevoked"));
    },
  });
}

const COPY =
  "M5.5 5.5v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.5 5.5h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z";
/** How long the button says what to press. */
const BY_HAND_MS = 4_000;
const TICK = "M3 8.5l3.2 3.2L13 5";

/** Shows a new key, the only time that it is visible. */
function showKey(context: DialogContext, created: NewKey, note?: string): void {
  const { messages, dialog } = context;
  const shown = h("textarea", { rows: 2, readonly: true, "aria-label": messages.t("yourKey"), part: "secret" });
  shown.value = created.key;
  shown.addEventListener("focus", () => shown.select());
  const copy = h("button", { type: "button", class: "main", part: "button", "data-first": true });
  const label = (text: "copy" | "copied" | "copyByHand"): void =>
    copy.replaceChildren(icon(16, "icon", text === "copied" ? TICK : COPY), messages.t(text));
  label("copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(created.key);
      label("copied");
      context.announce(messages.t("copied"));
    } catch {
      shown.focus();
      shown.select();
      label("copyByHand");
      setTimeout(() => label("copy"), BY_HAND_MS);
      context.announce(messages.t("copyByHand"));
    }
  });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, messages.t("shownTitle")),
    h("p", { class: "note" }, messages.t("shownText")),
    shown,
    note && h("p", { class: "small" }, note),
    h("div", { class: "buttons" }, copy, h("button", { type: "submit", part: "button" }, messages.t("stored"))),
  );
  dialog.addEventListener("close", () => dialog.replaceChildren(), { once: true });
  openDialog(context, form, true);
}
