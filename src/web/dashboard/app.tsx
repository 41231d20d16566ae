// Chooses the page for the address. The login pages are in this script; every other page is loaded lazily, so that
// the login page loads little. The others are requested as soon as the first page is shown, before an upgrade could
// remove them.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useRead } from "./api/query.ts";
import { discards, lock, session } from "./api/session.ts";
import { Card } from "./sign-in/card.tsx";
import { Forgot } from "./sign-in/forgot.tsx";
import { LogIn } from "./sign-in/login.tsx";
import { SignUp } from "./sign-in/sign-up.tsx";
import { envOf, hrefTo } from "./links.ts";
import type * as Pages from "./lazy-pages.tsx";
import { Button } from "./components/button.tsx";
import { Waiting } from "./components/skeleton.tsx";
import { go, place, type SignInPage } from "./routes.ts";

const pages = signal<typeof Pages | "failed" | null>(null);

export function loadLazyPages(): void {
  import("./lazy-pages.tsx").then(
    (loaded) => void (pages.value = loaded),
    () => void (pages.value = "failed"),
  );
}

/** A page that is loaded lazily. */
function LazyPage({ show }: { show: (loaded: typeof Pages) => ComponentChildren }) {
  if (pages.value === null) return <Waiting />;
  if (pages.value !== "failed") return <>{show(pages.value)}</>;
  return (
    <Card title="This page could not be loaded">
      <p>The server was not reached, or it has a newer version of this page.</p>
      <div class="buttons">
        <Button kind="primary" onClick={() => location.reload()}>
          Reload
        </Button>
      </div>
    </Card>
  );
}

function NotFound() {
  return (
    <Card title="This page does not exist">
      <p>The address may be mistyped, or the page may have moved.</p>
      <p class="after">
        <a href="#/">Go to the start page</a>
      </p>
    </Card>
  );
}

/** Where a signed-in person starts: the workspace of their session, or the choice. */
function Start() {
  const { memberships = [], workspaceId: active = null } = session.value ?? {};
  const first = memberships.find(({ workspace_id }) => workspace_id === active) ?? memberships[0];
  const chooses = !first || (memberships.length > 1 && active === null);
  useEffect(
    () =>
      go(chooses ? "#/workspaces" : hrefTo("home", { slug: first.slug, env: envOf(first.slug) }), { replace: true }),
    [],
  );
  return null;
}

/** A server without an owner says how to set it up. */
function SignedOutStart() {
  const { data, problem } = useRead("GET /v1/setup", {}).state.value;
  if (!data && !problem) return <Waiting />;
  return data?.open ? <LazyPage show={({ SetupHint }) => <SetupHint />} /> : <LogIn />;
}

function SignIn({ page, token }: { page: SignInPage; token: string }) {
  if (page === "login") return session.value ? <Start /> : <LogIn />;
  if (page === "signup") return <SignUp />;
  if (page === "forgot") return <Forgot />;
  const needsSession = page === "workspaces" || page === "account";
  if (needsSession && !session.value) return <LogIn />;
  return <LazyPage show={({ LazySignInPage }) => <LazySignInPage page={page} token={token} />} />;
}

function Current() {
  const at = place.value;
  if (at.kind === "unknown") return <NotFound />;
  if (at.kind === "sign-in") return <SignIn key={at.page} page={at.page} token={at.token} />;
  if (!session.value) return at.kind === "start" ? <SignedOutStart /> : <LogIn />;
  return at.kind === "start" ? <Start /> : <LazyPage show={({ OpenWorkspace }) => <OpenWorkspace at={at} />} />;
}

export function App() {
  const loaded = session.value && pages.value !== "failed" ? pages.value : null;
  return (
    <>
      {/* Without the other pages nothing of the workspace is shown, and nothing could be instead. */}
      <div hidden={loaded !== null && lock.value === "idle"}>
        <Current key={discards.value} />
      </div>
      {loaded && (
        <>
          <loaded.LoginAgain />
          <loaded.MovedDialog />
        </>
      )}
    </>
  );
}
