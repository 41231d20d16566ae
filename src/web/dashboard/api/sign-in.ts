// Logging in and out, switching the workspace, and keeping the tabs of this browser in step.
import { effect, untracked } from "@preact/signals";
import { confirmLeaving } from "./unsaved.ts";
import { call, forbidden, moved, ownSwitches } from "./call.ts";
import { oneAtATime } from "./serialize.ts";
import { Problem, toProblem } from "./problems.ts";
import { clearQueries, refreshReads } from "./query.ts";
import {
  discards,
  forgetPerson,
  lock,
  requireLogin,
  session,
  setSession,
  toSession,
  unlock,
  workspaceId,
  type NewSession,
} from "./session.ts";
import { TABS_CHANNEL } from "./web-storage.ts";

type TabMessage = { kind: "logged_out" } | { kind: "switched"; session: string; workspace: string };

const tabs = new BroadcastChannel(TABS_CHANNEL);

export async function logIn(email: string, password: string, stay: boolean): Promise<void> {
  adopt(await call("POST /v1/auth/sessions", { body: { email, password } }, { token: null }), stay);
}

export function adopt(created: NewSession, stay: boolean): void {
  setSession(toSession(created, stay));
}

/** Adopts a session on a page where another person may be logged in already, and ends the one before. */
export function replaceSession(created: NewSession): void {
  const before = session.value;
  if (before && before.user.id !== created.user.id) discardPage();
  adopt(created, true);
  if (before?.token) void endSession(before.token);
}

/** Logs in over the page. A login of another person, or of one who has left the workspace, discards the page. */
export async function logInAgain(email: string, password: string): Promise<void> {
  const before = session.value;
  const workspace_id = workspaceId.value;
  const logInTo = (workspace: { workspace_id?: string }): Promise<NewSession> =>
    call("POST /v1/auth/sessions", { body: { email, password, ...workspace } }, { token: null });
  const created = await logInTo(workspace_id === null ? {} : { workspace_id }).catch((error: unknown) => {
    if (toProblem(error).status === 403) return logInTo({});
    throw error;
  });
  const isMember = workspace_id === null || created.memberships.some((of) => of.workspace_id === workspace_id);
  const isSame = isMember && created.user.id === before?.user.id;
  if (!isSame) discardPage();
  adopt(created, before?.stay ?? true);
  if (isSame) unlock();
  else location.hash = isMember ? "#/" : "#/workspaces";
}

/** Ends the session at the server. A failure is retried once; then the session expires by itself. */
async function endSession(token: string): Promise<void> {
  const end = () => call("DELETE /v1/auth/sessions/current", {}, { token, keepalive: true });
  await end()
    .catch(end)
    .catch(() => {});
}

/** Removes everything of the person from the screen. What they sent must not be repeated as another person. */
function discardPage(): void {
  discards.value++;
  workspaceId.value = null;
  clearQueries();
  forgetPerson();
  unlock(new Problem(401));
}

function forget(): void {
  const token = session.value?.token;
  setSession(null);
  discardPage();
  if (token) void endSession(token);
}

/** Ends the session but keeps the page, hidden, for when the same person logs in again. */
export function lockPage(): void {
  const current = session.value;
  if (!current || lock.value === "idle") return;
  requireLogin("idle").catch(() => {});
  // Also when the dialog is open because the session had ended: there the page is still visible.
  lock.value = "idle";
  void endSession(current.token);
  // The old token must not survive a reload; the page still knows whose it was.
  setSession({ ...current, token: "" });
}

/** Asks first if something would be lost. */
export function logOut(): void {
  if (!confirmLeaving()) return;
  forget();
  tabs.postMessage({ kind: "logged_out" } satisfies TabMessage);
  location.hash = "#/login";
}

/** Reads roles and workspaces again. */
export async function refreshMe(): Promise<void> {
  const me = await call("GET /v1/auth/me", {});
  const current = session.value;
  // Another person may have logged in since.
  if (current?.user.id !== me.user.id) return;
  const user = { ...current.user, ...me.user };
  setSession({ ...current, user, memberships: me.memberships, workspaceId: me.active_workspace_id });
}

/** Makes a workspace the session's own, and the one on the screen if it is still `isWanted` by then. */
export const openWorkspace = oneAtATime(async (id: string, isWanted: () => boolean = () => true): Promise<void> => {
  if (!isWanted()) return;
  const switches = session.value?.workspaceId !== id;
  if (switches) {
    ownSwitches.count++;
    const body = { workspace_id: id };
    const discarded = discards.peek();
    await call("POST /v1/auth/sessions/current/workspace", { body }).finally(() => ownSwitches.count++);
    // The session now may be another person's.
    if (discards.peek() !== discarded) return;
    if (session.value) setSession({ ...session.value, workspaceId: id });
    tabs.postMessage({ kind: "switched", session: session.value?.id ?? "", workspace: id } satisfies TabMessage);
  }
  if (!isWanted()) return;
  if (workspaceId.value !== id) clearQueries();
  else if (switches) refreshReads(); // some may have been refused during the switch
  workspaceId.value = id;
  moved.value = false;
});

tabs.addEventListener("message", ({ data }: MessageEvent<TabMessage>) => {
  if (data.kind === "logged_out" && session.value) {
    forget();
    location.hash = "#/login";
  } else if (data.kind === "logged_out") forgetPerson(); // an address may be typed here
  if (data.kind === "switched" && session.value?.id === data.session) {
    setSession({ ...session.value, workspaceId: data.workspace });
    if (workspaceId.value !== null && workspaceId.value !== data.workspace) moved.value = true;
  }
});

// A refusal shows that the role is not what this tab remembers.
effect(() => {
  if (forbidden.value > 0) untracked(() => void refreshMe().catch(() => {}));
});

// More rights refuse nothing: they are looked for when the person returns to the page.
addEventListener("focus", () => {
  if (session.value && !lock.value) void refreshMe().catch(() => {});
});

// A page that the browser brings back from its cache must not show what belongs to an ended session.
addEventListener("pageshow", ({ persisted }) => {
  if (persisted && !session.value) location.reload();
});
