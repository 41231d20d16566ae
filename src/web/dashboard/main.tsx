// Starts the dashboard.
import "./shell/theme.ts";
import { render } from "preact";
import { App } from "./app.tsx";
import { session } from "./api/session.ts";
import { refreshMe } from "./api/sign-in.ts";
import { confirmLeaving } from "./forms/unsaved.ts";
import { guardLeaving } from "./routes.ts";

guardLeaving(confirmLeaving);
// What the tab remembers of roles and workspaces may be old.
if (session.value) void refreshMe().catch(() => {});
render(<App />, document.body);
