// A project's policy for the life of its keys: at creation, on a change, at rotation, and for keys that exist already.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`the key policy of a project on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const inDays = (days: number): string => new Date(instance.clock.now() + days * DAY_MS).toISOString();
    const setPolicy = (workspace: Workspace, key_policy: object) =>
      workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
    const want = (workspace: Workspace, more: Json = {}): Json => {
      return { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: "live", ...more };
    };

    it("gives new keys its expiry and refuses a later one, on every plane", async () => {
      const e = await embed(instance);
      const workspace = e.workspace;
      const old = await workspace.mint();
      const set = await setPolicy(workspace, { default_ttl_days: 30, max_ttl_days: 90 });
      expect(set.body).toMatchObject({
        policy_version: 2,
        key_policy: { default_ttl_days: 30, max_ttl_days: 90, holder_rotate: false },
      });
      expect((await workspace.mint()).expires_at).toBe(inDays(30));
      expect((await workspace.mint({ expires_at: inDays(90) })).expires_at).toBe(inDays(90));
      for (const expires_at of [inDays(91), null])
        expectRefusal(
          await workspace.call("sk_owner", "POST /v1/keys", want(workspace, { expires_at })),
          400,
          "invalid_request",
          "expires_at",
        );
      expect((await e.call("POST /v1/embed/keys", {})).body.expires_at).toBe(inDays(30));
      expect((await e.call("GET /v1/embed/session")).body.default_ttl_days).toBe(30);
      await setPolicy(workspace, { max_ttl_days: 90 });
      expect((await workspace.mint()).expires_at).toBe(inDays(90));
      await setPolicy(workspace, { default_ttl_days: 7 });
      expect((await workspace.mint({ expires_at: null })).expires_at).toBeNull();
      expect((await workspace.mint()).expires_at).toBe(inDays(7));
      expect((await workspace.call("sk_owner", `GET /v1/keys/${old.id}`)).body.expires_at).toBeNull();
      expectRefusal(
        await setPolicy(workspace, { default_ttl_days: 8, max_ttl_days: 7 }),
        400,
        "invalid_request",
        "key_policy.default_ttl_days",
      );
      expectRefusal(await setPolicy(workspace, { max_ttl_days: 0 }), 400, "invalid_request", "key_policy.max_ttl_days");
    });

    it("refuses to move an expiry beyond it, and leaves other changes alone", async () => {
      const workspace = await instance.workspace();
      const old = await workspace.mint();
      await setPolicy(workspace, { max_ttl_days: 10 });
      const edit = (body: object) => workspace.call("sk_owner", `PATCH /v1/keys/${old.id}`, body);
      expect((await edit({ name: "kept", expires_at: null })).body).toMatchObject({ name: "kept", expires_at: null });
      expectRefusal(await edit({ expires_at: inDays(11) }), 400, "invalid_request", "expires_at");
      expect((await edit({ expires_at: inDays(10) })).status).toBe(200);
      expectRefusal(await edit({ expires_at: null }), 400, "invalid_request", "expires_at");
    });

    it("gives a successor a fresh expiry, and keeps one that a person chose within the policy", async () => {
      const workspace = await instance.workspace();
      const chosen = await workspace.mint({ expires_at: inDays(300) });
      await setPolicy(workspace, { default_ttl_days: 30, max_ttl_days: 100 });
      const given = await workspace.mint();
      // As a form sends it: with the expiry that it read.
      const same = { name: "renamed", expires_at: given.expires_at };
      expect((await workspace.call("sk_owner", `PATCH /v1/keys/${given.id}`, same)).status).toBe(200);
      const soon = await workspace.mint({ expires_at: inDays(50) });
      instance.clock.advance(20 * DAY_MS);
      const rotate = async (id: string) =>
        (await workspace.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).body.expires_at;
      expect(await rotate(given.id)).toBe(inDays(30));
      expect(await rotate(soon.id)).toBe(inDays(30));
      expect(await rotate(chosen.id)).toBe(inDays(100));
      const bulk = await workspace.call("sk_owner", "POST /v1/bulk/keys", {
        action: "rotate",
        filter: { ids: [given.id] },
      });
      expect(bulk.body.changed).toBe(0);
      const another = await workspace.mint();
      instance.clock.advance(DAY_MS);
      const { data } = (
        await workspace.call("sk_owner", "POST /v1/bulk/keys", { action: "rotate", filter: { ids: [another.id] } })
      ).body;
      expect((await workspace.call("sk_owner", `GET /v1/keys/${data[0].successor_id}`)).body.expires_at).toBe(
        inDays(30),
      );
    });

    it("keeps the choice that a key never expires over rotations, as long as the policy allows it", async () => {
      const workspace = await instance.workspace();
      await setPolicy(workspace, { default_ttl_days: 30 });
      const rotate = async (id: string) => (await workspace.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).body;
      const forever = await workspace.mint({ expires_at: null });
      const freed = await workspace.mint();
      await workspace.call("sk_owner", `PATCH /v1/keys/${freed.id}`, { expires_at: null });
      const successors = [await rotate(forever.id), await rotate(freed.id)];
      expect(successors.map(({ expires_at }) => expires_at)).toEqual([null, null]);
      const filter = { ids: successors.map(({ id }) => id) };
      const { data } = (await workspace.call("sk_owner", "POST /v1/bulk/keys", { action: "rotate", filter })).body;
      const { id } = (await workspace.call("sk_owner", `GET /v1/keys/${data[0].successor_id}`)).body;
      expect((await workspace.call("sk_owner", `GET /v1/keys/${id}`)).body.expires_at).toBe(null);
      await setPolicy(workspace, { default_ttl_days: 30, max_ttl_days: 90 });
      expect((await rotate(id)).expires_at).toBe(inDays(90));
    });

    it("gives a leaked or rotated key that a person gave another end a successor with the life that it had", async () => {
      const workspace = await instance.workspace();
      const call = async (route: string, body: object) => (await workspace.call("sk_owner", route, body)).body;
      const [leaked, rotated, plain] = [
        await workspace.mint(),
        await workspace.mint({ expires_at: inDays(20) }),
        await workspace.mint(),
      ];
      await instance.sql(
        `update api_keys set quarantined_at = 1, expires_at = ${instance.clock.now() + DAY_MS} where id = '${leaked.id}'`,
      );
      await call(`POST /v1/keys/${rotated.id}/rotate`, {});
      const soon = { expires_at: new Date(instance.clock.now() + DAY_MS / 2).toISOString() };
      for (const { id } of [leaked, rotated, plain])
        expect((await call(`PATCH /v1/keys/${id}`, soon)).expires_at).toBe(soon.expires_at);
      const late = await workspace.mint();
      await call(`POST /v1/keys/${late.id}/rotate`, {});
      const later = { expires_at: inDays(3) }; // more time to switch to the successor
      expect((await call(`PATCH /v1/keys/${late.id}`, later)).expires_at).toBe(later.expires_at);
      expect((await call(`POST /v1/keys/${late.id}/rotate`, {})).expires_at).toBe(null);
      expect((await call(`POST /v1/keys/${leaked.id}/rotate`, {})).expires_at).toBe(null);
      expect((await call(`POST /v1/keys/${rotated.id}/rotate`, {})).expires_at).toBe(inDays(20));
      expect((await call(`POST /v1/keys/${plain.id}/rotate`, {})).expires_at).toBe(soon.expires_at);
    });

    it("reaches existing keys by cap_expiry only, which never moves an expiry later", async () => {
      const workspace = await instance.workspace();
      const forever = await workspace.mint();
      const short = await workspace.mint({ expires_at: inDays(5) });
      instance.clock.advance(50 * DAY_MS);
      const young = await workspace.mint({ expires_at: inDays(400) });
      const other = (await workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      await workspace.mint({ project_id: other });
      await setPolicy(workspace, { max_ttl_days: 60 });
      const cap = (more: object = {}) =>
        workspace.call("sk_owner", "POST /v1/bulk/keys", { action: "cap_expiry", filter: { all: true }, ...more });
      expect((await cap({ dry_run: true })).body.matched).toBe(2);
      const { body } = await cap({ grace_days: 20 });
      expect(body.data.map(({ id }: Json) => id)).toEqual([forever.id, young.id]);
      const expiryOf = async (id: string) => (await workspace.call("sk_owner", `GET /v1/keys/${id}`)).body.expires_at;
      expect([await expiryOf(forever.id), await expiryOf(young.id)]).toEqual([inDays(20), inDays(60)]);
      expect(await expiryOf(short.id)).toBe(short.expires_at);
      expect((await cap({ grace_days: 20 })).body.matched).toBe(0);
      expect((await cap({ grace_days: 30 })).body.matched).toBe(0);
      const { data } = (await workspace.call("sk_owner", "GET /v1/audit_logs?action=api_key.updated&limit=200")).body;
      expect(data.map(({ payload }: Json) => payload)).toEqual([
        { env: "live", expires_at: { old: null, new: inDays(20) }, bulk_id: body.bulk_id },
        { env: "live", expires_at: { old: young.expires_at, new: inDays(60) }, bulk_id: body.bulk_id },
      ]);
      expectRefusal(await cap({ reason: "x" }), 400, "invalid_request", "reason");
    });
  });
}
