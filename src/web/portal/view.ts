// The parts of the portal that only show something: header, banners, alerts, and what stands where no key does.
import type { ApiError, Trouble } from "./api.ts";
import { h } from "../shared/dom.ts";
import type { Strings, Words } from "./messages.ts";
import type { Session } from "./types.ts";

/** A failure in one sentence. */
export function explain(error: ApiError, words: Words): string {
  const texts: Record<Exclude<Trouble, "conflict">, keyof Strings> = {
    ended: "errEnded",
    origin: "errOrigin",
    scope: "errScope",
    gone: "errGone",
    busy: "errBusy",
    server: "errServer",
    network: navigator.onLine ? "errNetwork" : "errOffline",
    setup: "errSetup",
  };
  // A clash is about this very key, and the server has a sentence for each.
  if (error.trouble === "conflict") return error.message;
  return words.t(texts[error.trouble], { seconds: error.retryAfter || 60 });
}

export function header(words: Words, session: Session | null, tools: readonly HTMLElement[]): HTMLElement {
  const tenant = session ? (session.tenant.name ?? session.tenant.external_id) : "";
  return h(
    "header",
    { part: "header" },
    h(
      "div",
      {},
      h("h2", { id: "title", part: "title", tabindex: -1 }, words.t("title")),
      session && h("p", { class: "muted small" }, words.t("for", { tenant, project: session.project.name })),
    ),
    tools.length > 0 && h("div", { class: "tools" }, ...tools),
  );
}

export function testBanner(words: Words): HTMLElement {
  return h(
    "div",
    { class: "banner small", part: "banner" },
    h("strong", {}, words.t("testMode")),
    words.t("testModeText"),
  );
}

export function alert(words: Words, error: ApiError, retry: () => void): HTMLElement {
  const advice: Partial<Record<Trouble, keyof Strings>> = {
    ended: "errEndedText",
    origin: "errOriginText",
    network: navigator.onLine ? "errNetworkText" : "errOfflineText",
  };
  const second = advice[error.trouble];
  return h(
    "div",
    { class: "alert", part: "alert", role: "alert" },
    h(
      "div",
      {},
      h("strong", {}, explain(error, words)),
      second && h("p", { class: "small" }, words.t(second)),
      error.trouble === "server" && h("p", { class: "small" }, words.t("reference", { id: error.requestId })),
    ),
    h("button", { type: "button", part: "button", id: "retry", onclick: retry }, words.t("retry")),
  );
}

export function waiting(words: Words): HTMLElement {
  const bars = Array.from({ length: 4 }, () => h("i"));
  return h("div", { class: "wait" }, h("span", { class: "hide", role: "status" }, words.t("loading")), ...bars);
}

export function filter(words: Words, on: boolean, change: (on: boolean) => void): HTMLElement {
  const box = h("input", { type: "checkbox", id: "revoked", onchange: () => change(box.checked) });
  box.checked = on;
  return h("label", { class: "check small" }, box, words.t("showRevoked"));
}

export function blank(text: string, title?: string, create?: HTMLElement): HTMLElement {
  return h(
    "div",
    { class: "blank", part: "empty" },
    title && h("strong", {}, title),
    h("p", { class: "muted" }, text),
    create,
  );
}
