// Starts the dashboard.
import "./shell/theme.ts";
import { render } from "preact";
import { session } from "./api/session.ts";
import { refreshMe } from "./api/sign-in.ts";
import { answerOtherTabs, askOtherTabs } from "./api/tab-share.ts";
import { App, loadSecondScript } from "./app.tsx";
import { confirmLeaving } from "./forms/unsaved.ts";
import { guardLeaving, place } from "./routes.ts";
import { watchBuild } from "./shell/build.ts";
import { watchConnection } from "./shell/connection.ts";
import { watchIdle } from "./shell/idle.ts";

guardLeaving(confirmLeaving);
// A page that opened this one may sign it in.
if (!session.value && place.value.kind === "workspace" && history.length === 1) await askOtherTabs();
// Before any request: a page that was idle for too long locks.
watchIdle();
// What the tab remembers of roles and workspaces may be old.
if (session.value) void refreshMe().catch(() => {});
answerOtherTabs();
watchConnection();
watchBuild();
render(<App />, document.body);
// The log-in page does not wait for what comes after it.
if (session.value) loadSecondScript();
else requestAnimationFrame(() => setTimeout(loadSecondScript));
