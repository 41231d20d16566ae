// One key as a row: its state in words and shape, what it may do, when it was used, and what can be done with it.
import { h, s } from "../shared/dom.ts";
import type { Words } from "./messages.ts";
import { grantedScopes, stateOf, successorOf, type Key, type Session, type State } from "./types.ts";

export type Action = "usage" | "rotate" | "revoke";

export type RowHost = {
  words: Words;
  session: Session;
  keys: readonly Key[];
  openUsage: string | null;
  act(action: Action, key: Key): void;
};

/** A shape for each state: colour alone would not tell them apart. */
const SHAPES: Record<State, string> = {
  active: "M4 0a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
  replaced: "M4 0a4 4 0 1 1 0 8zM4 0a4 4 0 0 0 0 8v-1.2a2.8 2.8 0 0 1 0-5.6z",
  quarantined: "M4 .3 8 7.7H0z",
  expired: "M4 0a4 4 0 1 1 0 8 4 4 0 0 1 0-8zm0 1.4a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2z",
  revoked: "M1.2 0 4 2.8 6.8 0 8 1.2 5.2 4 8 6.8 6.8 8 4 5.2 1.2 8 0 6.8 2.8 4 0 1.2z",
};

function badge(state: State, words: Words): HTMLElement {
  const shape = s("svg", { viewBox: "0 0 8 8", "aria-hidden": "true" }, s("path", { d: SHAPES[state] }));
  return h("span", { class: `badge ${state}`, part: `badge badge-${state}` }, shape, words.t(state));
}

function when(words: Words, label: string, iso: string | null): HTMLElement {
  const value = iso ? h("time", { datetime: iso, title: words.time(iso) }, words.near(iso)) : words.t("never");
  return h("div", {}, h("dt", {}, label), h("dd", {}, value));
}

export function nameOf(key: Key, words: Words): string {
  return key.name ?? words.t("unnamed");
}

/** What may be done with a key now, by this token. */
function actionsOn(key: Key, state: State, { session, keys }: RowHost): Action[] {
  const actions: Action[] = ["usage"];
  if (!session.scopes.includes("keys:write") || state === "revoked") return actions;
  const granted = grantedScopes(session);
  const within = key.scopes.every((scope) => granted.includes(scope));
  if (state !== "expired" && within && !successorOf(key, keys, Date.now())) actions.push("rotate");
  return [...actions, "revoke"];
}

export function keyRow(key: Key, host: RowHost): HTMLLIElement {
  const { words } = host;
  const state = stateOf(key, host.keys, Date.now());
  const name = nameOf(key, words);
  const button = (action: Action): HTMLButtonElement =>
    h(
      "button",
      {
        type: "button",
        part: "button",
        class: action === "revoke" ? "warnish" : "",
        "data-action": action,
        "data-key": key.id,
        "aria-label": words.t("ofKey", { action: words.t(action), name }),
        "aria-expanded": action === "usage" ? String(host.openUsage === key.id) : null,
        "aria-haspopup": action === "usage" ? null : "dialog",
        onclick: () => host.act(action, key),
      },
      words.t(action),
    );
  const successor = state === "replaced" ? successorOf(key, host.keys, Date.now()) : undefined;
  const note =
    state === "quarantined"
      ? h("p", { class: "note bad" }, words.t("quarantinedText"))
      : successor && h("p", { class: "note" }, words.t("replacedBy", { prefix: successor.display_prefix }));
  const ended = state === "revoked" || state === "expired";
  return h(
    "li",
    { part: "key", class: ended ? "ended" : "" },
    h(
      "div",
      {},
      h("div", { class: "line" }, h("h3", { tabindex: -1, "data-key": key.id }, name), badge(state, words)),
      h("code", { class: "muted" }, `${key.display_prefix}…`),
    ),
    h("div", { class: "actions" }, ...actionsOn(key, state, host).map(button)),
    facts(key, words),
    note,
  );
}

function facts(key: Key, words: Words): HTMLElement {
  const scopes = h("dd", { class: "scopes" }, ...key.scopes.map((scope) => h("code", {}, scope)));
  if (key.scopes.length === 0) scopes.append(words.t("noScopes"));
  const past = key.expires_at !== null && Date.parse(key.expires_at) <= Date.now();
  return h(
    "dl",
    {},
    when(words, words.t("created"), key.created_at),
    when(words, words.t("lastUsed"), key.last_used_at),
    key.revoked_at
      ? when(words, words.t("revoked"), key.revoked_at)
      : when(words, words.t(past ? "expired" : "expires"), key.expires_at),
    h("div", {}, h("dt", {}, words.t("scopes")), scopes),
    key.revoked_reason && h("div", {}, h("dt", {}, words.t("reason")), h("dd", {}, key.revoked_reason)),
  );
}
