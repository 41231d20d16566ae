// A project's policy for the life of its keys: at creation, on a change, at rotation, and for keys that exist already.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const back of backends) {
  describe(`the key policy of a project on ${back}`, () => {
    const r = sharedInstance(back);

    const inDays = (days: number): string => new Date(r.clock.now() + days * DAY_MS).toISOString();
    const setPolicy = (w: Workspace, key_policy: object) =>
      w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy });
    const want = (w: Workspace, more: Json = {}): Json => {
      return { project_id: w.project_id, tenant_id: w.tenant_id, env: "live", ...more };
    };

    it("gives new keys its expiry and refuses a later one, on every plane", async () => {
      const e = await embed(r);
      const w = e.workspace;
      const old = await w.mint();
      const set = await setPolicy(w, { default_ttl_days: 30, max_ttl_days: 90 });
      expect(set.body).toMatchObject({
        policy_version: 2,
        key_policy: { default_ttl_days: 30, max_ttl_days: 90, holder_rotate: false },
      });
      expect((await w.mint()).expires_at).toBe(inDays(30));
      expect((await w.mint({ expires_at: inDays(90) })).expires_at).toBe(inDays(90));
      for (const expires_at of [inDays(91), null])
        expectRefusal(
          await w.call("sk_owner", "POST /v1/keys", want(w, { expires_at })),
          400,
          "invalid_request",
          "expires_at",
        );
      expect((await e.call("POST /v1/embed/keys", {})).body.expires_at).toBe(inDays(30));
      expect((await e.call("GET /v1/embed/session")).body.default_ttl_days).toBe(30);
      await setPolicy(w, { max_ttl_days: 90 });
      expect((await w.mint()).expires_at).toBe(inDays(90));
      await setPolicy(w, { default_ttl_days: 7 });
      expect((await w.mint({ expires_at: null })).expires_at).toBeNull();
      expect((await w.mint()).expires_at).toBe(inDays(7));
      expect((await w.call("sk_owner", `GET /v1/keys/${old.id}`)).body.expires_at).toBeNull();
      expectRefusal(
        await setPolicy(w, { default_ttl_days: 8, max_ttl_days: 7 }),
        400,
        "invalid_request",
        "key_policy.default_ttl_days",
      );
      expectRefusal(await setPolicy(w, { max_ttl_days: 0 }), 400, "invalid_request", "key_policy.max_ttl_days");
    });

    it("refuses to move an expiry beyond it, and leaves other changes alone", async () => {
      const w = await r.workspace();
      const old = await w.mint();
      await setPolicy(w, { max_ttl_days: 10 });
      const edit = (body: object) => w.call("sk_owner", `PATCH /v1/keys/${old.id}`, body);
      expect((await edit({ name: "kept", expires_at: null })).body).toMatchObject({ name: "kept", expires_at: null });
      expectRefusal(await edit({ expires_at: inDays(11) }), 400, "invalid_request", "expires_at");
      expect((await edit({ expires_at: inDays(10) })).status).toBe(200);
      expectRefusal(await edit({ expires_at: null }), 400, "invalid_request", "expires_at");
    });

    it("gives a successor a fresh expiry, and keeps one that a person chose within the policy", async () => {
      const w = await r.workspace();
      const chosen = await w.mint({ expires_at: inDays(300) });
      await setPolicy(w, { default_ttl_days: 30, max_ttl_days: 100 });
      const given = await w.mint();
      // As a form sends it: with the expiry that it read.
      const same = { name: "renamed", expires_at: given.expires_at };
      expect((await w.call("sk_owner", `PATCH /v1/keys/${given.id}`, same)).status).toBe(200);
      const soon = await w.mint({ expires_at: inDays(50) });
      r.clock.advance(20 * DAY_MS);
      const rotate = async (id: string) => (await w.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).body.expires_at;
      expect(await rotate(given.id)).toBe(inDays(30));
      expect(await rotate(soon.id)).toBe(inDays(30));
      expect(await rotate(chosen.id)).toBe(inDays(100));
      const bulk = await w.call("sk_owner", "POST /v1/bulk/keys", { action: "rotate", filter: { ids: [given.id] } });
      expect(bulk.body.changed).toBe(0);
      const another = await w.mint();
      r.clock.advance(DAY_MS);
      const { data } = (
        await w.call("sk_owner", "POST /v1/bulk/keys", { action: "rotate", filter: { ids: [another.id] } })
      ).body;
      expect((await w.call("sk_owner", `GET /v1/keys/${data[0].successor_id}`)).body.expires_at).toBe(inDays(30));
    });

    it("keeps the choice that a key never expires over rotations, as long as the policy allows it", async () => {
      const w = await r.workspace();
      await setPolicy(w, { default_ttl_days: 30 });
      const rotate = async (id: string) => (await w.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).body;
      const forever = await w.mint({ expires_at: null });
      const freed = await w.mint();
      await w.call("sk_owner", `PATCH /v1/keys/${freed.id}`, { expires_at: null });
      const successors = [await rotate(forever.id), await rotate(freed.id)];
      expect(successors.map(({ expires_at }) => expires_at)).toEqual([null, null]);
      const filter = { ids: successors.map(({ id }) => id) };
      const { data } = (await w.call("sk_owner", "POST /v1/bulk/keys", { action: "rotate", filter })).body;
      const { id } = (await w.call("sk_owner", `GET /v1/keys/${data[0].successor_id}`)).body;
      expect((await w.call("sk_owner", `GET /v1/keys/${id}`)).body.expires_at).toBe(null);
      await setPolicy(w, { default_ttl_days: 30, max_ttl_days: 90 });
      expect((await rotate(id)).expires_at).toBe(inDays(90));
    });

    it("gives a leaked or rotated key that a person gave another end a successor with the life that it had", async () => {
      const w = await r.workspace();
      const call = async (route: string, body: object) => (await w.call("sk_owner", route, body)).body;
      const [leaked, rotated, plain] = [await w.mint(), await w.mint({ expires_at: inDays(20) }), await w.mint()];
      await r.sql(
        `update api_keys set quarantined_at = 1, expires_at = ${r.clock.now() + DAY_MS} where id = '${leaked.id}'`,
      );
      await call(`POST /v1/keys/${rotated.id}/rotate`, {});
      const soon = { expires_at: new Date(r.clock.now() + DAY_MS / 2).toISOString() };
      for (const { id } of [leaked, rotated, plain])
        expect((await call(`PATCH /v1/keys/${id}`, soon)).expires_at).toBe(soon.expires_at);
      const late = await w.mint();
      await call(`POST /v1/keys/${late.id}/rotate`, {});
      const later = { expires_at: inDays(3) }; // more time to switch to the successor
      expect((await call(`PATCH /v1/keys/${late.id}`, later)).expires_at).toBe(later.expires_at);
      expect((await call(`POST /v1/keys/${late.id}/rotate`, {})).expires_at).toBe(null);
      expect((await call(`POST /v1/keys/${leaked.id}/rotate`, {})).expires_at).toBe(null);
      expect((await call(`POST /v1/keys/${rotated.id}/rotate`, {})).expires_at).toBe(inDays(20));
      expect((await call(`POST /v1/keys/${plain.id}/rotate`, {})).expires_at).toBe(soon.expires_at);
    });

    it("reaches existing keys by cap_expiry only, which never moves an expiry later", async () => {
      const w = await r.workspace();
      const forever = await w.mint();
      const short = await w.mint({ expires_at: inDays(5) });
      r.clock.advance(50 * DAY_MS);
      const young = await w.mint({ expires_at: inDays(400) });
      const other = (await w.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" })).body.id;
      await w.mint({ project_id: other });
      await setPolicy(w, { max_ttl_days: 60 });
      const cap = (more: object = {}) =>
        w.call("sk_owner", "POST /v1/bulk/keys", { action: "cap_expiry", filter: { all: true }, ...more });
      expect((await cap({ dry_run: true })).body.matched).toBe(2);
      const { body } = await cap({ grace_days: 20 });
      expect(body.data.map(({ id }: Json) => id)).toEqual([forever.id, young.id]);
      const expiryOf = async (id: string) => (await w.call("sk_owner", `GET /v1/keys/${id}`)).body.expires_at;
      expect([await expiryOf(forever.id), await expiryOf(young.id)]).toEqual([inDays(20), inDays(60)]);
      expect(await expiryOf(short.id)).toBe(short.expires_at);
      expect((await cap({ grace_days: 20 })).body.matched).toBe(0);
      expect((await cap({ grace_days: 30 })).body.matched).toBe(0);
      const { data } = (await w.call("sk_owner", "GET /v1/audit_logs?action=api_key.updated&limit=200")).body;
      expect(data.map(({ payload }: Json) => payload)).toEqual([
        { env: "live", expires_at: { old: null, new: inDays(20) }, bulk_id: body.bulk_id },
        { env: "live", expires_at: { old: young.expires_at, new: inDays(60) }, bulk_id: body.bulk_id },
      ]);
      expectRefusal(await cap({ reason: "x" }), 400, "invalid_request", "reason");
    });
  });
}
