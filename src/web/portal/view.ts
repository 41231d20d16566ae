// The static parts of the portal: header, banner, error alert, loading and empty states.
import { h } from "../shared/dom.ts";
import type { ApiError, ErrorKind } from "./api.ts";
import { conflictText } from "./conflicts.ts";
import type { Strings, Messages } from "./messages.ts";
import type { Session } from "./types.ts";

/** An error in one sentence. */
export function explain(error: ApiError, messages: Messages): string {
  const texts: Record<Exclude<ErrorKind, "preview">, keyof Strings> = {
    ended: "errEnded",
    origin: "errOrigin",
    scope: "errScope",
    gone: "errGone",
    conflict: conflictText(error.message),
    busy: error.retryAfter === 1 ? "errBusyOne" : "errBusy",
    server: "errServer",
    network: navigator.onLine ? "errNetwork" : "errOffline",
    setup: "errSetup",
  };
  if (error.kind === "preview") return error.message;
  return messages.t(texts[error.kind], { seconds: error.retryAfter || 60 });
}

export function header(messages: Messages, session: Session | null, tools: readonly HTMLElement[]): HTMLElement {
  const tenant = session ? (session.tenant.name ?? session.tenant.external_id) : "";
  return h(
    "header",
    { part: "header" },
    h(
      "div",
      {},
      h("h2", { id: "title", part: "title", tabindex: -1 }, messages.t("title")),
      session && h("p", { class: "muted small" }, messages.t("for", { tenant, project: session.project.name })),
    ),
    tools.length > 0 && h("div", { class: "tools" }, ...tools),
  );
}

/** What holds for all keys in the list. */
export function banners(messages: Messages, session: Session): HTMLElement[] {
  const banner = (title: keyof Strings, text: keyof Strings): HTMLElement =>
    h("div", { class: "banner small", part: "banner" }, h("strong", {}, messages.t(title)), messages.t(text));
  return [
    ...(session.test_mode ? [banner("testMode", "testModeText")] : []),
    ...(session.suspended ? [banner("suspended", "suspendedText")] : []),
  ];
}

export function errorAlert(messages: Messages, error: ApiError, retry: () => void): HTMLElement {
  const advice: Partial<Record<ErrorKind, keyof Strings>> = {
    ended: "errEndedText",
    origin: "errOriginText",
    network: navigator.onLine ? "errNetworkText" : "errOfflineText",
  };
  const text = advice[error.kind];
  return h(
    "div",
    { class: "alert", part: "alert", role: "alert" },
    h(
      "div",
      {},
      h("strong", {}, explain(error, messages)),
      text && h("p", { class: "small" }, messages.t(text)),
      error.kind === "server" && h("p", { class: "small" }, messages.t("reference", { id: error.requestId })),
    ),
    h("button", { type: "button", part: "button", id: "retry", onclick: retry }, messages.t("retry")),
  );
}

export function createButton(messages: Messages, id: string, onclick: () => void): HTMLButtonElement {
  const props = { type: "button", class: "main", part: "button create", "aria-haspopup": "dialog", id, onclick };
  return h("button", props, messages.t("create"));
}

/** Below the list. */
export function moreButton(messages: Messages, onclick: () => void): HTMLElement {
  const button = h("button", { type: "button", part: "button", id: "more", onclick }, messages.t("showMore"));
  return h("div", { class: "blank" }, button);
}

export function loading(messages: Messages): HTMLElement {
  const bars = Array.from({ length: 4 }, () => h("i"));
  return h("div", { class: "wait" }, h("span", { class: "hide", role: "status" }, messages.t("loading")), ...bars);
}

export function revokedFilter(messages: Messages, on: boolean, onChange: (on: boolean) => void): HTMLElement {
  const box = h("input", { type: "checkbox", id: "revoked", onchange: () => onChange(box.checked) });
  box.checked = on;
  return h("label", { class: "check small" }, box, messages.t("showRevoked"));
}

export function emptyState(text: string, title?: string, create?: HTMLElement): HTMLElement {
  return h(
    "div",
    { class: "blank", part: "empty" },
    title && h("strong", {}, title),
    h("p", { class: "muted" }, text),
    create,
  );
}
