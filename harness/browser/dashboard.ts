// A person in the dashboard: signed in, in a workspace with a project and a tenant.
import type { Browser } from "playwright-core";
import type { Role } from "../../src/domain/core/actor.ts";
import { memberOf, PASSWORD, team, type Team } from "../instances/people.ts";
import type { TestInstance } from "../instances/test-instance.ts";
import type { VisitOptions } from "./browser.ts";
import { guest, type Guest } from "./pages.ts";

export type Shop = Team & { project_id: string; tenant_id: string };

/** A workspace with one project and one tenant. */
export async function shop(instance: TestInstance, tenantName = "Globex"): Promise<Shop> {
  const made = await team(instance);
  const project = await instance.call(made.owner.session, "POST /v1/projects", { name: "Orders", slug: "orders" });
  const tenant = await instance.call(made.owner.session, "POST /v1/tenants", {
    external_id: "globex",
    name: tenantName,
  });
  return { ...made, project_id: project.body.id as string, tenant_id: tenant.body.id as string };
}

export type SignedIn = Guest & {
  /** Opens a page of the workspace: "keys", "keys/<id>", "keys?state=all". */
  show(page: string, env?: "live" | "test"): Promise<void>;
};

export type SignInOptions = VisitOptions & { role?: Role; page?: string; env?: "live" | "test" };

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
  const address = (where: string, which: string): string => `${instance.url}/#/w/${at.slug}/${which}/${where}`;
  // Only for the first document: what it changes or removes must stay so.
  const session = JSON.stringify(await newSession(instance, email));
  const once = await g.page.addInitScript(`sessionStorage.setItem("keyrack:/:session", ${session})`);
  await g.open(address(page, env));
  await once.dispose();
  await g.page.locator("main h1").first().waitFor();
  return {
    ...g,
    show: async (where, which = env) => {
      await g.page.goto(address(where, which));
    },
    [Symbol.asyncDispose]: () => g[Symbol.asyncDispose](),
  };
}
