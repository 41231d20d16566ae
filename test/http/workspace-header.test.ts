// The header keyrack-workspace: a form never writes into a workspace other than the one on the screen.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { logIn, memberOf, person, team, type Team } from "../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Reply } from "../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`keyrack-workspace on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let first: Team;
    let second: Team;
    const call = (bearer: string, route: string, workspace: string, body?: unknown): Promise<Reply> =>
      instance.call(bearer, route, body, { headers: { "keyrack-workspace": workspace } });
    const slugs = async (key: string): Promise<string[]> =>
      (await instance.call(key, "GET /v1/projects")).body.data.map(({ slug }: { slug: string }) => slug);

    beforeAll(async () => {
      [first, second] = [await team(instance), await team(instance)];
    });

    it("admits the credential's own workspace, in either case of letters", async () => {
      for (const bearer of [first.owner.session, first.key]) {
        expect((await call(bearer, "GET /v1/workspace", first.id)).status).toBe(200);
        expect((await call(bearer, "GET /v1/workspace", first.id.toUpperCase())).body.id).toBe(first.id);
      }
    });

    it("refuses another workspace, and nothing is done", async () => {
      for (const bearer of [first.owner.session, first.key]) {
        const reply = await call(bearer, "POST /v1/projects", second.id, { name: "P", slug: "wrong-place" });
        expectRefusal(reply, 409, "conflict", "keyrack-workspace");
        expect(reply.body.error.message).toBe(
          "This credential is for another workspace. If you have switched workspaces, reload the page.",
        );
      }
      expect(await slugs(first.key)).not.toContain("wrong-place");
      expect(await slugs(second.key)).not.toContain("wrong-place");
    });

    it("notices that the same session was switched in another tab", async () => {
      const guest = await memberOf(instance, first, "admin");
      const invite = await instance.call(second.owner.session, "POST /v1/invites", {
        email: guest.email,
        role: "admin",
      });
      await instance.call(guest.session, "POST /v1/auth/invites/accept", { token: invite.body.token });
      const tab = (await logIn(instance, guest.email, guest.password, { workspace_id: first.id })).session;
      expect((await call(tab, "POST /v1/projects", first.id, { name: "P", slug: "on-screen" })).status).toBe(201);
      await instance.call(tab, "POST /v1/auth/sessions/current/workspace", { workspace_id: second.id });
      const late = await call(tab, "POST /v1/projects", first.id, { name: "P", slug: "after-switch" });
      expectRefusal(late, 409, "conflict");
      expect([...(await slugs(first.key)), ...(await slugs(second.key))]).not.toContain("after-switch");
    });

    it("is checked after the kind of credential and before the role", async () => {
      const member = await memberOf(instance, first, "member");
      const body = { name: "P", slug: "by-member" };
      expectRefusal(await call(member.session, "POST /v1/projects", second.id, body), 409, "conflict");
      expectRefusal(await call(member.session, "POST /v1/projects", first.id, body), 403, "forbidden");
      expectRefusal(await call("krsk_live_nothing", "GET /v1/workspace", "nonsense"), 401, "invalid_key");
      const homeless = await person(instance);
      expectRefusal(await call(homeless.session, "GET /v1/workspace", first.id), 403, "forbidden");
    });

    it("must be a UUID", async () => {
      const reply = await call(first.key, "GET /v1/workspace", "first");
      expectRefusal(reply, 400, "invalid_request");
      expect(reply.body.error.details).toEqual([{ path: "keyrack-workspace", message: "must be a UUID" }]);
    });

    it("is ignored by people's and machines' endpoints, and when a workspace is created", async () => {
      expect((await call(first.owner.session, "GET /v1/auth/me", "nonsense")).status).toBe(200);
      const project = await instance.call(first.key, "POST /v1/projects", { name: "P", slug: "machine" });
      const snapshot = `GET /v1/policy/snapshot?project_id=${project.body.id}`;
      expect((await call(first.key, snapshot, second.id)).status).toBe(200);
      const created = await call(first.owner.session, "POST /v1/workspaces", second.id, {
        name: "N",
        slug: `n-${backend}`,
      });
      expect(created.status, created.text).toBe(201);
    });
  });
}
