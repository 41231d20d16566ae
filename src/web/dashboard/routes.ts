// The hash router: one signal with the place that the address names, and functions that make addresses.
import { signal } from "@preact/signals";
import type { Env } from "../../kernel/credentials.ts";
import { enterEntry, leaveEntry } from "./components/scroll.ts";

const SIGN_IN = ["setup", "login", "signup", "forgot", "reset", "verify", "invite", "workspaces", "account"] as const;
export type SignInPage = (typeof SIGN_IN)[number];

export type Place = { query: URLSearchParams; token: string } & (
  | { kind: "start" }
  | { kind: "unknown" }
  | { kind: "sign-in"; page: SignInPage }
  | { kind: "workspace"; slug: string; env: Env; page: string; id: string | null }
);

function parse(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const query = new URLSearchParams(search);
  const token = query.get("token") ?? "";
  query.delete("token");
  const [first = "", slug = "", env = "", page = "", id = null, ...more] = path.split("/");
  const common = { query, token };
  if (path === "") return { kind: "start", ...common };
  if (first === "w" && slug && page && !more.length && (env === "live" || env === "test"))
    return { kind: "workspace", slug, env, page, id, ...common };
  const signIn = slug === "" ? SIGN_IN.find((name) => name === first) : undefined;
  return signIn ? { kind: "sign-in", page: signIn, ...common } : { kind: "unknown", ...common };
}

/** Reads the address, and takes a one-time token out of it before anything is rendered. */
function read(): Place {
  const { hash } = location;
  if (/[?&]token(=|&|$)/.test(hash)) history.replaceState(null, "", hash.replace(/\?.*$/, ""));
  return parse(hash);
}

export const place = signal<Place>(read());

let mayLeave = (_next: Place): boolean => true;
/** `check` may refuse to leave the page, as for a form with changes. */
export const guardLeaving = (check: (next: Place) => boolean): void => void (mayLeave = check);

let shown = location.hash;
addEventListener("hashchange", () => {
  if (location.hash === shown) return;
  // Also when the person stays, the history must not keep a token.
  const next = read();
  if (!mayLeave(next)) return history.pushState(null, "", shown || "#/");
  leaveEntry();
  place.value = next;
  shown = location.hash;
  enterEntry();
});

/** Shows another place; `replace` leaves the present one out of the history. */
export function go(href: string, { replace = false } = {}): void {
  if (replace) location.replace(href);
  else location.hash = href;
}
