// A long poll is refused as soon as its secret key ends, and shows nothing that happens after.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { memberOf, team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Reply, type Workspace } from "../../../harness/instances/test-instance.ts";
import { turns } from "../../../harness/waiting.ts";

for (const backend of runBackends) {
  describe(`a long poll that outlives its credential on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const waiting = async (n: number): Promise<void> => {
      const { feed, waitingReceipts } = instance.app.services;
      while (feed.waiting + waitingReceipts.size !== n) await new Promise((resolve) => setImmediate(resolve));
    };
    /** A poll of the given key, once it waits. */
    const poll = async (workspace: Workspace, key: string, wait_ms = 25_000): Promise<{ answer: Promise<Reply> }> => {
      const { policy_version } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body;
      const query = `project_id=${workspace.project_id}&since=${policy_version}&wait_ms=${wait_ms}`;
      const answer = instance.call(key, `GET /v1/policy/delta?${query}`);
      await waiting(1);
      return { answer };
    };
    const byOwner = (workspace: Workspace, action: string, body: object = {}) =>
      workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/${action}`, body);

    it("is refused at once when its key is revoked, or rotated without overlap", async () => {
      for (const [action, body] of [
        ["revoke", {}],
        ["rotate", { overlap_hours: 0 }],
      ] as const) {
        const workspace = await instance.workspace();
        const { answer } = await poll(workspace, workspace.keys.sk_admin);
        await byOwner(workspace, action, body);
        expectRefusal(await answer, 401, "invalid_key");
        expect(instance.app.services.feed.waiting).toBe(0);
      }
    });

    it("is refused where its key is revoked before it waits, and continues to wait where another workspace's is", async () => {
      const [workspace, stranger] = [await instance.workspace(), await instance.workspace()];
      const { feed } = instance.app.services;
      const head = feed.head.bind(feed);
      const revokedMeanwhile = async (of: Workspace) => {
        const reading = vi.spyOn(feed, "head").mockImplementationOnce(async (...args) => {
          const found = await head(...args);
          await byOwner(of, "revoke");
          return found;
        });
        onTestFinished(() => reading.mockRestore());
        const { policy_version } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body;
        const query = `project_id=${workspace.project_id}&since=${policy_version}&wait_ms=25000`;
        return instance.call(workspace.keys.sk_admin, `GET /v1/policy/delta?${query}`);
      };
      let isAnswered = false;
      const first = revokedMeanwhile(stranger).finally(() => (isAnswered = true));
      await waiting(1);
      await turns(20);
      expect(isAnswered).toBe(false);
      expectRefusal(await revokedMeanwhile(workspace), 401, "invalid_key");
      expectRefusal(await first, 401, "invalid_key");
    });

    it("that waits for nodes is refused likewise", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `GET /v1/policy/delta?project_id=${workspace.project_id}&since=0&node=behind`);
      await instance.app.services.nodes.flushed();
      const query = `project_id=${workspace.project_id}&version=1&wait_ms=25000`;
      const answer = instance.call(workspace.keys.sk_admin, `GET /v1/propagation?${query}`);
      await waiting(1);
      await byOwner(workspace, "revoke");
      expectRefusal(await answer, 401, "invalid_key");
    });

    it("that waits for nodes is refused when its key expires, its person logs out or is removed", async () => {
      const t = await team(instance);
      const project = await instance.call(t.key, "POST /v1/projects", { name: "API", slug: "api" });
      await instance.call(t.key, `GET /v1/policy/delta?project_id=${project.body.id}&since=0&node=behind`);
      await instance.app.services.nodes.flushed();
      const guest = await memberOf(instance, t, "member");
      const expires_at = new Date(instance.clock.now() + 1_000).toISOString();
      const { body: brief } = await instance.call(t.key, "POST /v1/secret_keys", { env: "live", expires_at });
      const wait = async (credential: string): Promise<{ answer: Promise<Reply> }> => {
        const query = `project_id=${project.body.id}&version=1&wait_ms=25000`;
        const answer = instance.call(credential, `GET /v1/propagation?${query}`);
        await waiting(1);
        return { answer };
      };
      const byKey = await wait(brief.key);
      instance.clock.advance(1_000);
      expectRefusal(await byKey.answer, 401, "invalid_key");
      const byGuest = await wait(guest.session);
      await instance.call(t.owner.session, `DELETE /v1/members/${guest.id}`);
      expect((await byGuest.answer).status).toBe(403);
      const byOwner = await wait(t.owner.session);
      await instance.call(t.owner.session, "DELETE /v1/auth/sessions/current");
      expectRefusal(await byOwner.answer, 401, "invalid_session");
      expect(instance.app.services.feed.waiting).toBe(0);
    });

    it("shows nothing that happened after the revocation", async () => {
      const workspace = await instance.workspace();
      const { answer } = await poll(workspace, workspace.keys.sk_admin);
      // The revocation is committed, but this process has not been notified of it yet.
      const { credentialCache } = instance.app.services;
      const notified = Promise.withResolvers<void>();
      const invalidate = credentialCache.invalidate.bind(credentialCache);
      credentialCache.invalidate = async (id) => {
        await notified.promise;
        return invalidate(id);
      };
      const revoked = byOwner(workspace, "revoke");
      while ((await instance.call(workspace.keys.sk_admin, "GET /v1/workspace")).status !== 401);
      instance.clock.advance(5_000); // the cache entry expires
      const { key } = await workspace.mint();
      const { status, text } = await answer;
      credentialCache.invalidate = invalidate;
      notified.resolve();
      await revoked;
      expect([status, text.includes(key.slice(0, 12))]).toEqual([401, false]);
    });

    it("is refused when its key expires, or its quarantine lapses", async () => {
      const workspace = await instance.workspace();
      const expires_at = new Date(instance.clock.now() + 1_000).toISOString();
      const { body: brief } = await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", expires_at });
      const { answer } = await poll(workspace, brief.key);
      instance.clock.advance(1_000);
      expectRefusal(await answer, 401, "invalid_key");
    });

    it("is answered early, and not refused, when its key still has time left", async () => {
      const workspace = await instance.workspace();
      const { answer } = await poll(workspace, workspace.keys.sk_admin);
      await byOwner(workspace, "rotate", { overlap_hours: 1 });
      expect((await answer).status).toBe(304);
    });

    it("does not keep a committed revocation from being answered", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const { policy_version } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body;
      await workspace.call(
        "sk_owner",
        `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${policy_version}&node=n`,
      );
      await instance.app.services.nodes.flushed();
      const revoking = workspace.call("sk_admin", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
      await waiting(1);
      await byOwner(workspace, "revoke");
      const after = `project_id=${workspace.project_id}&since=${policy_version + 1}&node=n`;
      await workspace.call("sk_owner", `GET /v1/policy/delta?${after}`);
      const { status, body } = await revoking;
      expect([status, body.propagation.complete]).toEqual([200, true]);
    });
  });
}
