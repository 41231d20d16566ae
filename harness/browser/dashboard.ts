// A person in the dashboard: signed in, in a workspace with a project and a tenant.
import type { Browser } from "playwright-core";
import type { Role } from "../../src/domain/core/actor.ts";
import { afterAll, afterEach } from "vitest";
import { logIn, memberOf, PASSWORD, person, team, type Team } from "../instances/people.ts";
import type { TestInstance } from "../instances/test-instance.ts";
import type { VisitOptions } from "./browser.ts";
import { guest, type Guest } from "./pages.ts";
import type { BrowserSuite } from "./suite.ts";

export type Shop = Team & { project_id: string; tenant_id: string };

const owners = new WeakMap<TestInstance, string>();

/** A new workspace. Those of an instance have one owner, so that one page can show them all. */
export async function ownWorkspace(instance: TestInstance): Promise<Team> {
  const email = owners.get(instance);
  const owner = await (email === undefined ? person(instance) : logIn(instance, email));
  owners.set(instance, owner.email);
  const made = await team(instance, owner);
  await instance.call(owner.session, "POST /v1/auth/sessions/current/workspace", { workspace_id: made.id });
  return made;
}

/** A workspace with one project and one tenant. */
export async function shop(instance: TestInstance, tenantName = "Globex"): Promise<Shop> {
  const made = await ownWorkspace(instance);
  const project = await instance.call(made.owner.session, "POST /v1/projects", { name: "Orders", slug: "orders" });
  const tenant = await instance.call(made.owner.session, "POST /v1/tenants", {
    external_id: "globex",
    name: tenantName,
  });
  return { ...made, project_id: project.body.id as string, tenant_id: tenant.body.id as string };
}

type SignedIn = Guest & {
  /** Opens a page of the workspace: "keys", "keys/<id>", "keys?state=all". */
  show(page: string, env?: "live" | "test"): Promise<void>;
};

type SignInOptions = VisitOptions & { role?: Role; page?: string; env?: "live" | "test" };

/** What the dashboard keeps in its tab after a login (src/web/dashboard/api/session.ts). */
async function newSession(instance: TestInstance, email: string): Promise<string> {
  const { body } = await instance.call(null, "POST /v1/auth/sessions", { email, password: PASSWORD });
  const { token, id, user, memberships, active_workspace_id: workspaceId } = body;
  return JSON.stringify({ token, id, user, memberships, workspaceId, stay: true });
}

/** Opens the dashboard as the owner, or as a new member with a role, at a page. */
export async function signedIn(
  browser: Browser,
  instance: TestInstance,
  at: Team,
  { role = "owner", page = "home", env = "live", ...options }: SignInOptions = {},
): Promise<SignedIn> {
  const { email } = role === "owner" ? at.owner : await memberOf(instance, at, role);
  const g = await guest(browser, options);
  // Only for the first document: what it changes or removes must stay so.
  const session = JSON.stringify(await newSession(instance, email));
  const once = await g.page.addInitScript(`sessionStorage.setItem("keyrack:/:session", ${session})`);
  const visitor = inWorkspace(g, instance, at, env);
  await visitor.show(page);
  await once.dispose();
  await g.page.locator("main h1").first().waitFor();
  return visitor;
}

function inWorkspace(g: Guest, instance: TestInstance, at: Team, env: "live" | "test"): SignedIn {
  return {
    ...g,
    show: async (where, which = env) => {
      await g.page.goto(`${instance.url}/#/w/${at.slug}/${which}/${where}`);
    },
    [Symbol.asyncDispose]: () => g[Symbol.asyncDispose](),
  };
}

type OwnerPage = (at: Team, options?: Pick<SignInOptions, "page" | "env">) => Promise<SignedIn>;

/**
 * Call it inside `describe`: one page for the owner of the file's workspaces, because loading it and the first check by
 * axe in a document take more CPU time than most tests. A test that passes `expectClean` leaves the document to the
 * next, which opens another workspace in it; after any other the next test has a new page. What goes wrong after
 * `expectClean` fails the test that caused it. Tests that change the clock, the context, forced colours or the network,
 * or that open tabs, take a page of their own (`signedIn`).
 */
export function useOwnerPage(suite: BrowserSuite): OwnerPage {
  let kept: SignedIn | undefined;
  let isClean = false;
  const close = async (): Promise<void> => {
    await kept?.[Symbol.asyncDispose]();
    kept = undefined;
  };
  afterAll(close);
  afterEach(async () => {
    if (!kept || !isClean) return close();
    isClean = false;
    await leaveWorkspace(kept, suite.instance);
    await kept.expectClean();
    isClean = true;
  });
  return async (at, { page = "home", env = "live" } = {}) => {
    const { browser, instance } = suite;
    if (kept && !isClean) await close();
    if (kept) {
      kept = inWorkspace(kept, instance, at, env);
      await kept.show(page);
      await kept.page.locator(".side").waitFor({ state: "attached" });
      await kept.page.locator("main h1").first().waitFor();
    } else kept = await signedIn(browser, instance, at, { page, env });
    isClean = false;
    const visitor = kept;
    return {
      ...visitor,
      expectClean: async () => {
        isClean = false;
        await visitor.expectClean();
        isClean = true;
      },
    };
  };
}

/** Removes what a test has set on its page, and closes the workspace. */
async function leaveWorkspace(g: Guest, { url }: TestInstance): Promise<void> {
  const { page } = g;
  await page.unrouteAll({ behavior: "ignoreErrors" }); // a handler may still wait for its answer
  page.removeAllListeners("request");
  page.removeAllListeners("dialog");
  await page.emulateMedia({ media: null, colorScheme: null, reducedMotion: null });
  await page.setViewportSize({ width: 1280, height: 720 });
  page.on("dialog", (asked) => void asked.accept()); // about what was typed and not saved
  await page.goto(`${url}/#/workspaces`);
  await g.at("Choose a workspace");
  page.removeAllListeners("dialog");
  await page.evaluate(
    "for (const key of Object.keys(localStorage)) if (key.startsWith('keyrack:')) localStorage.removeItem(key)",
  );
}
