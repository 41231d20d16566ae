// Who is signed in, and which workspace is on the screen. The token is kept in memory and, if the person agreed, in the
// tab's own storage; never in an address, an attribute or a message to another origin.
import { computed, signal } from "@preact/signals";
import type { RouteOutput } from "../../../client.ts";
import type { Problem } from "./problems.ts";
import { readTab, writeTab } from "./web-storage.ts";

export type NewSession = RouteOutput<"POST /v1/auth/sessions">;
export type Membership = NewSession["memberships"][number];
export type Role = Membership["role"];
const ROLE_NAMES: Readonly<Partial<Record<string, string>>> = { owner: "Owner", admin: "Admin", member: "Member" };
/** A role that a newer server has is shown as it is. */
export const roleName = (role: string): string => ROLE_NAMES[role] ?? role;

export type Session = {
  /** Empty while the page is locked. */
  token: string;
  id: string;
  user: { id: string; email: string; name: string | null; email_verified: boolean };
  memberships: readonly Membership[];
  /** The workspace that the server has for this session. */
  workspaceId: string | null;
  /** Whether the tab's storage holds it, except while the page is locked. */
  stay: boolean;
};

export const session = signal<Session | null>(restore());

/** The id of the workspace on the screen. Requests assert it, so that none can reach another one. */
export const workspaceId = signal<string | null>(null);

export const membership = computed<Membership | null>(
  () => session.value?.memberships.find(({ workspace_id }) => workspace_id === workspaceId.value) ?? null,
);

export const role = computed<Role>(() => membership.value?.role ?? "member");

function restore(): Session | null {
  try {
    return JSON.parse(readTab("session") ?? "null") as Session | null;
  } catch {
    return null;
  }
}

/** Sets or changes the session, in memory and in the tab's storage. */
export function setSession(next: Session | null): void {
  session.value = next;
  writeTab("session", next?.stay && next.token !== "" ? JSON.stringify(next) : null);
}

const resets: (() => void)[] = [];

/** Registers how to clear what a module remembers, so that the next person in this page sees nothing of it. */
export const onForget = (reset: () => void): void => void resets.push(reset);

/** Clears what modules remember of the person. */
export function forgetPerson(): void {
  for (const reset of resets) reset();
}

export function toSession({ token, id, user, memberships, active_workspace_id }: NewSession, stay: boolean): Session {
  const { id: userId, email, name, email_verified } = user;
  const person = { id: userId, email, name, email_verified };
  return { token, id, user: person, memberships, workspaceId: active_workspace_id, stay };
}

/** Why the page waits for a login: the server ended the session, or the page was idle for too long. */
type Lock = "expired" | "idle";
export const lock = signal<Lock | null>(null);

let waiting: PromiseWithResolvers<void> | null = null;

/** Asks the person to log in again, over the page. Rejects if the page is discarded instead. */
export function requireLogin(reason: Lock = "expired"): Promise<void> {
  lock.value ??= reason;
  waiting ??= Promise.withResolvers<void>();
  return waiting.promise;
}

/** Removes the lock. Requests that wait for the login are repeated, or fail with the problem. */
export function unlock(problem?: Problem): void {
  lock.value = null;
  if (problem) waiting?.reject(problem);
  else waiting?.resolve();
  waiting = null;
}

/** How often the page was discarded: its components live until the next time. */
export const discards = signal(0);
