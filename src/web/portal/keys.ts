// One key as a list row: state, scopes, times and actions.
import { h, s } from "../shared/dom.ts";
import { successorOf } from "../shared/successor.ts";
import type { Messages } from "./messages.ts";
import { grantedScopes, stateOf, type Key, type Session, type State } from "./types.ts";

export type Action = "usage" | "rotate" | "revoke";

type RowContext = {
  messages: Messages;
  session: Session;
  keys: readonly Key[];
  openUsage: string | null;
  onAction(action: Action, key: Key): void;
};

/** A shape for each kind of state, as in the dashboard, because colour alone must not distinguish them. */
const DISC = "M4 0a4 4 0 1 1 0 8 4 4 0 0 1 0-8z";
const TRIANGLE = "M4 .3 8 7.7H0z";
const RING = `${DISC}m0 1.4a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2z`;
const SHAPES: Record<State, string> = {
  active: DISC,
  replaced: TRIANGLE,
  quarantined: "M.5.5h7v7h-7z",
  disabled: TRIANGLE,
  suspended: TRIANGLE,
  expired: RING,
  revoked: RING,
};

function badge(state: State, messages: Messages): HTMLElement {
  const shape = s("svg", { viewBox: "0 0 8 8", "aria-hidden": "true" }, s("path", { d: SHAPES[state] }));
  return h("span", { class: `badge ${state}`, part: `badge badge-${state}` }, shape, messages.t(state));
}

function timeFact(messages: Messages, label: string, iso: string | null): HTMLElement {
  const value = iso ? h("time", { datetime: iso, title: messages.time(iso) }, messages.date(iso)) : messages.t("never");
  return h("div", {}, h("dt", {}, label), h("dd", {}, value));
}

export function nameOf(key: Key, messages: Messages): string {
  return key.name ?? messages.t("unnamed");
}

/** The actions that the token and the key's state allow. */
function allowedActions(key: Key, state: State, { session, keys }: RowContext): Action[] {
  const actions: Action[] = ["usage"];
  if (!session.scopes.includes("keys:write") || state === "revoked") return actions;
  const granted = grantedScopes(session);
  const covered = key.scopes.every((scope) => granted.includes(scope));
  const rotatable = state !== "expired" && !key.disabled_at && !session.suspended;
  if (rotatable && covered && !successorOf(key, keys, Date.now())) actions.push("rotate");
  return [...actions, "revoke"];
}

export function keyRow(key: Key, context: RowContext): HTMLLIElement {
  const { messages } = context;
  const state = stateOf(key, context.keys, Date.now(), context.session.suspended);
  const name = nameOf(key, messages);
  const button = (action: Action): HTMLButtonElement =>
    h(
      "button",
      {
        type: "button",
        part: "button",
        id: `${action}-button-${key.id}`,
        "data-action": action,
        "data-key": key.id,
        "aria-label": messages.t("ofKey", { action: messages.t(action), name }),
        "aria-expanded": action === "usage" ? String(context.openUsage === key.id) : null,
        "aria-haspopup": action === "usage" ? null : "dialog",
        onclick: () => context.onAction(action, key),
      },
      messages.t(action),
    );
  const successor = state === "replaced" ? successorOf(key, context.keys, Date.now()) : undefined;
  const note =
    state === "quarantined"
      ? h("p", { class: "note bad" }, messages.t("quarantinedText"))
      : successor && h("p", { class: "note" }, messages.t("replacedBy", { prefix: successor.display_prefix }));
  const ended = state === "revoked" || state === "expired";
  return h(
    "li",
    { part: "key", class: ended ? "ended" : "" },
    h(
      "div",
      {},
      h("div", { class: "line" }, h("h3", { tabindex: -1, "data-key": key.id }, name), badge(state, messages)),
      h("code", { class: "muted" }, `${key.display_prefix}…`),
    ),
    h("div", { class: "actions" }, ...allowedActions(key, state, context).map(button)),
    facts(key, messages),
    note,
  );
}

function facts(key: Key, messages: Messages): HTMLElement {
  const scopes = h("dd", { class: "scopes" }, ...key.scopes.map((scope) => h("code", {}, scope)));
  if (key.scopes.length === 0) scopes.append(messages.t("noScopes"));
  const past = key.expires_at !== null && Date.parse(key.expires_at) <= Date.now();
  return h(
    "dl",
    {},
    timeFact(messages, messages.t("created"), key.created_at),
    timeFact(messages, messages.t("lastUsed"), key.last_used_at),
    key.revoked_at
      ? timeFact(messages, messages.t("revoked"), key.revoked_at)
      : timeFact(messages, messages.t(past ? "expired" : "expires"), key.expires_at),
    h("div", {}, h("dt", {}, messages.t("scopes")), scopes),
    key.revoked_reason && h("div", {}, h("dt", {}, messages.t("reason")), h("dd", {}, key.revoked_reason)),
  );
}
