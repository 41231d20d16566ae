// The end of an API key over HTTP: rotation, revocation, quarantine, and deletion of its tenant.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { KEY_FIELDS } from "../../../harness/instances/fields.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`the lifecycle of keys on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    const want = (more: object = {}) => ({
      project_id: workspace.project_id,
      tenant_id: workspace.tenant_id,
      env: "live",
      ...more,
    });
    const fresh = async (): Promise<Workspace> => (workspace = await instance.workspace());

    it("keeps a catalogue of scopes, and warns of a key that carries others without refusing it", async () => {
      await fresh();
      const project = `PATCH /v1/projects/${workspace.project_id}`;
      const scope_catalogue = [
        { name: "orders:read", description: "Read orders", default: true },
        { name: "orders:write" },
      ];
      const set = await workspace.call("sk_owner", project, { scope_catalogue });
      expect(set.body).toMatchObject({
        policy_version: 1,
        scope_catalogue: [scope_catalogue[0], { name: "orders:write", description: null, default: false }],
        key_policy: { holder_rotate: false },
      });
      const plain = await workspace.mint();
      expect([plain.scopes, "warnings" in plain]).toEqual([[], false]);
      const scopes = ["orders:write", "admin"];
      const warnings = [{ path: "scopes[1]", message: "is not in the project's scope catalogue" }];
      const key = await workspace.mint({ scopes });
      expect([key.scopes, key.warnings]).toEqual([scopes, warnings]);
      const shown = (await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      expect("warnings" in shown).toBe(false);
      const edit = `PATCH /v1/keys/${key.id}`;
      expect("warnings" in (await workspace.call("sk_owner", edit, { name: "n" })).body).toBe(false);
      for (const _ of ["changed", "unchanged"])
        expect((await workspace.call("sk_owner", edit, { scopes: ["x"] })).body.warnings[0].path).toBe("scopes[0]");
      for (const wrong of [
        [{ name: "a" }, { name: "a" }],
        [{ name: "" }],
        [{ name: "a", description: "" }],
        Array.from({ length: 201 }, (_, i) => ({ name: `s${i}` })),
      ])
        expectRefusal(await workspace.call("sk_owner", project, { scope_catalogue: wrong }), 400, "invalid_request");
      const emptied = await workspace.call("sk_owner", project, {
        scope_catalogue: [],
        key_policy: { holder_rotate: true },
      });
      expect(emptied.body).toMatchObject({
        scope_catalogue: [],
        key_policy: { holder_rotate: true },
        policy_version: 5,
      });
      const { data } = (await workspace.call("sk_owner", "GET /v1/audit_logs?action=project.updated&limit=200")).body;
      expect(data.at(-1).payload).toMatchObject({
        scope_catalogue: { old: [{ name: "orders:read" }, { name: "orders:write" }], new: [] },
        key_policy: { old: { holder_rotate: false }, new: { holder_rotate: true } },
      });
    });

    it("describes in the portal the scopes of the project's catalogue that the token grants, and no others", async () => {
      const e = await embed(instance);
      const granted = { name: "orders:read", description: "Read orders", default: true };
      const scope_catalogue = [granted, { name: "admin", description: "Everything" }];
      await e.workspace.call("sk_owner", `PATCH /v1/projects/${e.workspace.project_id}`, { scope_catalogue });
      expect((await e.call("GET /v1/embed/session")).body.scope_catalogue).toEqual([granted]);
      const created = await e.call("POST /v1/embed/keys", { scopes: ["orders:write"] });
      expect([created.status, "warnings" in created.body]).toEqual([201, false]);
    });

    it("copies the key's settings on rotation and shortens the old key, never extending it", async () => {
      await fresh();
      const expires_at = new Date(instance.clock.now() + 48 * HOUR_MS).toISOString();
      const key = await workspace.mint({ name: "n", scopes: ["s"], meta: { m: 1 }, expires_at });
      const { body } = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, { overlap_hours: 0.5 });
      expect(Object.keys(body)).toEqual([...KEY_FIELDS, "key", "key_shown_once", "previous_key"]);
      expect(body).toMatchObject({ name: "n", scopes: ["s"], meta: { m: 1 }, rotated_from: key.id, expires_at });
      expect(body.previous_key).toMatchObject({
        id: key.id,
        expires_at: new Date(instance.clock.now() + HOUR_MS / 2).toISOString(),
      });
      // The old key's new expiry came from rotation: a second rotation neither copies it nor moves it later.
      const again = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, { overlap_hours: 168 });
      expect(again.body.expires_at).toBe(expires_at);
      expect(again.body.previous_key.expires_at).toBe(body.previous_key.expires_at);
      expect(await workspace.actions()).toEqual(["api_key.created", "api_key.rotated", "api_key.rotated"]);
    });

    it("overlaps 24 hours by default, rotates an expired key, and does not rotate a revoked one", async () => {
      await fresh();
      const key = await workspace.mint({ expires_at: new Date(instance.clock.now() + 1000).toISOString() });
      instance.clock.advance(2000);
      const rotated = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`);
      expect(rotated.body).toMatchObject({ expires_at: null, previous_key: { expires_at: key.expires_at } });
      const next = await workspace.call("sk_owner", `POST /v1/keys/${rotated.body.id}/rotate`, {});
      expect(next.body.previous_key.expires_at).toBe(new Date(instance.clock.now() + 24 * HOUR_MS).toISOString());
      await workspace.call("sk_owner", `POST /v1/keys/${next.body.id}/revoke`);
      const refused = await workspace.call("sk_owner", `POST /v1/keys/${next.body.id}/rotate`);
      expectRefusal(refused, 409, "conflict");
      expect(refused.body.error.message).toBe("A revoked key cannot be rotated.");
      for (const overlap_hours of [-1, 168.5, "24"]) {
        expectRefusal(
          await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, { overlap_hours }),
          400,
          "invalid_request",
          "overlap_hours",
        );
      }
    });

    it("keeps the first reason of a revocation, and writes nothing when it is repeated", async () => {
      await fresh();
      const { id } = await workspace.mint();
      const first = await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, { reason: "leaked" });
      expect(first.body).toMatchObject({ revoked_reason: "leaked", revoked_at: expect.any(String) });
      expect("propagation" in first.body).toBe(false);
      instance.clock.advance(1000);
      const again = await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke?wait=true`, { reason: "other" });
      expect(again.body).toMatchObject({ revoked_reason: "leaked", revoked_at: first.body.revoked_at });
      expect(again.body.propagation).toMatchObject({ complete: true, total_nodes: 0, acked_nodes: 0, nodes: [] });
      expect(await workspace.actions()).toEqual(["api_key.created", "api_key.revoked"]);
      for (const edit of [{}, { name: "x" }]) {
        expectRefusal(await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, edit), 409, "conflict");
      }
      expectRefusal(
        await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, { reason: "" }),
        400,
        "invalid_request",
        "reason",
      );
    });

    it("does not postpone a quarantined key's expiry", async () => {
      await fresh();
      const { id } = await workspace.mint();
      const at = instance.clock.now() + HOUR_MS;
      await instance.sql(
        `update api_keys set quarantined_at = 1, quarantine_reason = 'x', expires_at = ${at} where id = '${id}'`,
      );
      for (const expires_at of [null, new Date(at + 1).toISOString()]) {
        expectRefusal(await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, { expires_at }), 409, "conflict");
      }
      const sooner = { expires_at: new Date(at - 1000).toISOString() };
      expect((await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, sooner)).status).toBe(200);
      const successor = await workspace.call("sk_owner", `POST /v1/keys/${id}/rotate`);
      expect(successor.body).toMatchObject({ quarantined_at: null, quarantine_reason: null });
    });

    it("revokes a deleted tenant's keys, raises each project's version once, and writes one audit row", async () => {
      await fresh();
      const other = await workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "bbb" });
      const mine = [
        await workspace.mint(),
        await workspace.mint({ env: "test" }),
        await workspace.mint({ project_id: other.body.id }),
      ];
      await workspace.call("sk_owner", `POST /v1/keys/${mine[0]?.id}/revoke`, { reason: "before" });
      const version = async (id: string) =>
        (await workspace.call("sk_owner", `GET /v1/projects/${id}`)).body.policy_version;
      const before = [await version(workspace.project_id), await version(other.body.id)];
      const { body } = await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect(body).toEqual({ object: "tenant", id: workspace.tenant_id, deleted: true, revoked_keys: 2 });
      expect([await version(workspace.project_id), await version(other.body.id)]).toEqual(before.map((v) => v + 1));
      const { body: keys } = await workspace.call("sk_owner", "GET /v1/keys?include_revoked=true");
      const reasons = (keys.data as { revoked_reason: string }[]).map(({ revoked_reason }) => revoked_reason);
      expect(reasons).toEqual(["tenant deleted", "tenant deleted", "before"]);
      expect((await workspace.actions()).slice(-1)).toEqual(["tenant.deleted"]);
      expectRefusal(await workspace.call("sk_owner", `GET /v1/tenants/${workspace.tenant_id}`), 404, "not_found");
      expectRefusal(await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`), 404, "not_found");
      expectRefusal(await workspace.call("sk_owner", "POST /v1/keys", want()), 404, "not_found");
    });
  });
}
