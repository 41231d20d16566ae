// The people of the demonstration: an owner, an admin and a member, each made the way a person would be.
import { randomBytes } from "node:crypto";
import { ANONYMOUS, type AnonymousActor, type SessionActor, type WorkspaceSession } from "../../domain/core/actor.ts";
import type { Ctx, Services } from "../../domain/core/context.ts";
import { consumeReset } from "../../domain/auth/password-resets.ts";
import { logIn } from "../../domain/auth/sessions.ts";
import { acceptInvite, createInvite } from "../../domain/workspaces/invites.ts";
import { createUser } from "../../domain/workspaces/operators.ts";
import { completeSetup } from "../../domain/workspaces/setup.ts";
import { issueSetupLink } from "../../domain/workspaces/setup-tokens.ts";

/** One password for all of them, random in each process: the instance may be reachable by others. */
export const DEMO_PASSWORD = randomBytes(12).toString("base64url");

export const OWNER = "owner@demo.example";
export const ADMIN = "admin@demo.example";
export const MEMBER = "member@demo.example";

const anonymous = (services: Services): Ctx<AnonymousActor> => ({ services, actor: ANONYMOUS });
const tokenIn = (link: string): string => new URL(link).hash.split("token=")[1] ?? "";

/** The first start of an instance: the owner opens the link that the server prints. */
export async function makeOwner(services: Services): Promise<{ owner: Ctx<WorkspaceSession>; project_id: string }> {
  const { url } = await issueSetupLink(services);
  const { session, workspace, project } = await completeSetup(anonymous(services), {
    token: tokenIn(url),
    email: OWNER,
    password: DEMO_PASSWORD,
    name: "Olivia Owner",
    workspace_name: "Demo",
    workspace_slug: "demo",
    project_name: "Orders API",
    project_slug: "orders-api",
  });
  const { id, user } = session;
  const actor = { kind: "session", id, user_id: user.id, workspace_id: workspace.id, role: "owner" } as const;
  return { owner: { services, actor }, project_id: project.id };
}

export async function invite(owner: Ctx<WorkspaceSession>, email: string, role: "admin" | "member"): Promise<void> {
  const { services } = owner;
  const { token } = await createInvite(owner, { email, role });
  const { link } = await createUser(services, email);
  await consumeReset(anonymous(services), { token: tokenIn(link), password: DEMO_PASSWORD });
  const { id, user } = await logIn(anonymous(services), { email, password: DEMO_PASSWORD });
  const actor: SessionActor = { kind: "session", id, user_id: user.id, workspace_id: null, role: null };
  await acceptInvite({ services, actor }, token);
}
