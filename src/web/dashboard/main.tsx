// Starts the dashboard.
import "./shell/theme.ts";
import { render } from "preact";
import { session } from "./api/session.ts";
import { refreshMe } from "./api/sign-in.ts";
import { answerOtherTabs, askOtherTabs } from "./api/tab-share.ts";
import { App } from "./app.tsx";
import { confirmLeaving } from "./api/unsaved.ts";
import { guardLeaving, place } from "./routes.ts";
import { watchBuild } from "./shell/new-version.ts";
import { watchConnection } from "./shell/connection.ts";
import { watchIdle } from "./shell/idle.ts";

// Another filter or tab of the same page, which JSON leaves out, takes no form off the screen, but stops a bulk run.
guardLeaving((next) => {
  const isOtherPage = JSON.stringify(next) !== JSON.stringify(place.value);
  return confirmLeaving((_mark, question) => isOtherPage || question === "bulk");
});
/** Whether one of our links leads here that only a signed-in person sees. A typed address has no fragment. */
function isLinked(): boolean {
  const at = place.value;
  if (at.kind === "sign-in") return at.page === "account" || at.page === "workspaces";
  return at.kind === "workspace" || (at.kind === "start" && location.hash !== "");
}

// A page that opened this one may sign it in.
if (!session.value && history.length === 1 && isLinked()) await askOtherTabs();
// Before any request: a page that was idle for too long locks.
watchIdle();
// What the tab remembers of roles and workspaces may be old.
if (session.value) void refreshMe().catch(() => {});
answerOtherTabs();
watchConnection();
watchBuild();
// Not in the frame of the script: the browser's tools record where a request began, and V8 would parse all of the
// script again for it. bench: dashboard/login
queueMicrotask(() => render(<App />, document.body));
