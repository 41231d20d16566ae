// A long poll is refused as soon as its secret key ends, and shows nothing that happens after.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { memberOf, team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Reply, type Workspace } from "../../../harness/instances/test-instance.ts";
import { turns } from "../../../harness/waiting.ts";

for (const back of backends) {
  describe(`a long poll that outlives its credential on ${back}`, () => {
    const r = sharedInstance(back);

    const waiting = async (n: number): Promise<void> => {
      const { feed, waitingReceipts } = r.app.services;
      while (feed.waiting + waitingReceipts.size !== n) await new Promise((resolve) => setImmediate(resolve));
    };
    /** A poll of the given key, once it waits. */
    const poll = async (w: Workspace, key: string, wait_ms = 25_000): Promise<{ answer: Promise<Reply> }> => {
      const { policy_version } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
      const query = `project_id=${w.project_id}&since=${policy_version}&wait_ms=${wait_ms}`;
      const answer = r.call(key, `GET /v1/policy/delta?${query}`);
      await waiting(1);
      return { answer };
    };
    const byOwner = (w: Workspace, action: string, body: object = {}) =>
      w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/${action}`, body);

    it("is refused at once when its key is revoked, or rotated without overlap", async () => {
      for (const [action, body] of [
        ["revoke", {}],
        ["rotate", { overlap_hours: 0 }],
      ] as const) {
        const w = await r.workspace();
        const { answer } = await poll(w, w.keys.sk_admin);
        await byOwner(w, action, body);
        expectRefusal(await answer, 401, "invalid_key");
        expect(r.app.services.feed.waiting).toBe(0);
      }
    });

    it("is refused where its key is revoked before it waits, and continues to wait where another workspace's is", async () => {
      const [w, stranger] = [await r.workspace(), await r.workspace()];
      const { feed } = r.app.services;
      const head = feed.head.bind(feed);
      const revokedMeanwhile = async (of: Workspace) => {
        const reading = vi.spyOn(feed, "head").mockImplementationOnce(async (...args) => {
          const found = await head(...args);
          await byOwner(of, "revoke");
          return found;
        });
        onTestFinished(() => reading.mockRestore());
        const { policy_version } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
        const query = `project_id=${w.project_id}&since=${policy_version}&wait_ms=25000`;
        return r.call(w.keys.sk_admin, `GET /v1/policy/delta?${query}`);
      };
      let isAnswered = false;
      const first = revokedMeanwhile(stranger).finally(() => (isAnswered = true));
      await waiting(1);
      await turns(20);
      expect(isAnswered).toBe(false);
      expectRefusal(await revokedMeanwhile(w), 401, "invalid_key");
      expectRefusal(await first, 401, "invalid_key");
    });

    it("that waits for nodes is refused likewise", async () => {
      const w = await r.workspace();
      await w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=0&node=behind`);
      await r.app.services.nodes.flushed();
      const query = `project_id=${w.project_id}&version=1&wait_ms=25000`;
      const answer = r.call(w.keys.sk_admin, `GET /v1/propagation?${query}`);
      await waiting(1);
      await byOwner(w, "revoke");
      expectRefusal(await answer, 401, "invalid_key");
    });

    it("that waits for nodes is refused when its key expires, its person logs out or is removed", async () => {
      const t = await team(r);
      const project = await r.call(t.key, "POST /v1/projects", { name: "API", slug: "api" });
      await r.call(t.key, `GET /v1/policy/delta?project_id=${project.body.id}&since=0&node=behind`);
      await r.app.services.nodes.flushed();
      const guest = await memberOf(r, t, "member");
      const expires_at = new Date(r.clock.now() + 1_000).toISOString();
      const { body: brief } = await r.call(t.key, "POST /v1/secret_keys", { env: "live", expires_at });
      const wait = async (credential: string): Promise<{ answer: Promise<Reply> }> => {
        const query = `project_id=${project.body.id}&version=1&wait_ms=25000`;
        const answer = r.call(credential, `GET /v1/propagation?${query}`);
        await waiting(1);
        return { answer };
      };
      const byKey = await wait(brief.key);
      r.clock.advance(1_000);
      expectRefusal(await byKey.answer, 401, "invalid_key");
      const byGuest = await wait(guest.session);
      await r.call(t.owner.session, `DELETE /v1/members/${guest.id}`);
      expect((await byGuest.answer).status).toBe(403);
      const byOwner = await wait(t.owner.session);
      await r.call(t.owner.session, "DELETE /v1/auth/sessions/current");
      expectRefusal(await byOwner.answer, 401, "invalid_session");
      expect(r.app.services.feed.waiting).toBe(0);
    });

    it("shows nothing that happened after the revocation", async () => {
      const w = await r.workspace();
      const { answer } = await poll(w, w.keys.sk_admin);
      // The revocation is committed, but this process has not been notified of it yet.
      const { credentialCache } = r.app.services;
      const notified = Promise.withResolvers<void>();
      const invalidate = credentialCache.invalidate.bind(credentialCache);
      credentialCache.invalidate = async (id) => {
        await notified.promise;
        return invalidate(id);
      };
      const revoked = byOwner(w, "revoke");
      while ((await r.call(w.keys.sk_admin, "GET /v1/workspace")).status !== 401);
      r.clock.advance(5_000); // the cache entry expires
      const { key } = await w.mint();
      const { status, text } = await answer;
      credentialCache.invalidate = invalidate;
      notified.resolve();
      await revoked;
      expect([status, text.includes(key.slice(0, 12))]).toEqual([401, false]);
    });

    it("is refused when its key expires, or its quarantine lapses", async () => {
      const w = await r.workspace();
      const expires_at = new Date(r.clock.now() + 1_000).toISOString();
      const { body: brief } = await w.call("sk_owner", "POST /v1/secret_keys", { env: "live", expires_at });
      const { answer } = await poll(w, brief.key);
      r.clock.advance(1_000);
      expectRefusal(await answer, 401, "invalid_key");
    });

    it("is answered early, and not refused, when its key still has time left", async () => {
      const w = await r.workspace();
      const { answer } = await poll(w, w.keys.sk_admin);
      await byOwner(w, "rotate", { overlap_hours: 1 });
      expect((await answer).status).toBe(304);
    });

    it("does not keep a committed revocation from being answered", async () => {
      const w = await r.workspace();
      const key = await w.mint();
      const { policy_version } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
      await w.call("sk_owner", `GET /v1/policy/delta?project_id=${w.project_id}&since=${policy_version}&node=n`);
      await r.app.services.nodes.flushed();
      const revoking = w.call("sk_admin", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
      await waiting(1);
      await byOwner(w, "revoke");
      const after = `project_id=${w.project_id}&since=${policy_version + 1}&node=n`;
      await w.call("sk_owner", `GET /v1/policy/delta?${after}`);
      const { status, body } = await revoking;
      expect([status, body.propagation.complete]).toEqual([200, true]);
    });
  });
}
