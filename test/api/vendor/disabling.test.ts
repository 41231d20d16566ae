// Disabling and enabling a key: what nodes get, what is refused meanwhile, and what is recorded.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`a disabled key on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    beforeAll(async () => {
      workspace = await instance.workspace();
    });

    const act = (id: string, action: string, body: object = {}, as: "sk_owner" | "sk_test" = "sk_owner") =>
      workspace.call(as, `POST /v1/keys/${id}/${action}`, body);
    const feed = async (path: string) => (await workspace.call("sk_owner", `GET /v1/policy/${path}`)).body;
    const snapshotIds = async (): Promise<string[]> =>
      (await feed(`snapshot?project_id=${workspace.project_id}`)).keys.map(({ key_id }: { key_id: string }) => key_id);
    const version = async (): Promise<number> =>
      (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body.policy_version;
    type AuditRow = { target_id: string; action: string; payload: unknown };
    const actions = async (id: string): Promise<[string, unknown][]> =>
      (await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200")).body.data
        .filter(({ target_id, action }: AuditRow) => target_id === id && action.endsWith("abled"))
        .map(({ action, payload }: AuditRow) => [action, payload]);

    it("is removed from every node, and returns when it is enabled", async () => {
      const key = await workspace.mint();
      const before = await version();
      const { status, body } = await act(key.id, "disable", { reason: "unpaid" });
      expect([status, body.disabled_reason, typeof body.disabled_at]).toEqual([200, "unpaid", "string"]);
      expect(await snapshotIds()).not.toContain(key.id);
      const removed = await feed(`delta?project_id=${workspace.project_id}&since=${before}`);
      expect(removed.changes).toEqual([
        expect.objectContaining({ change: "remove", key_id: key.id, reason: "disabled" }),
      ]);
      const enabled = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/enable`, {});
      expect([enabled.status, enabled.body.disabled_at, enabled.body.disabled_reason]).toEqual([200, null, null]);
      expect(await snapshotIds()).toContain(key.id);
      const returned = await feed(`delta?project_id=${workspace.project_id}&since=${before + 1}`);
      expect(returned.changes).toEqual([expect.objectContaining({ change: "upsert", key_id: key.id })]);
      expect(await actions(key.id)).toEqual([
        ["api_key.disabled", { env: "live", reason: "unpaid" }],
        ["api_key.enabled", { env: "live" }],
      ]);
    });

    it("is disabled and enabled once: a repetition writes nothing, and the first reason stays", async () => {
      const key = await workspace.mint();
      await act(key.id, "enable");
      await act(key.id, "disable", { reason: "first" });
      const at = await version();
      const again = await act(key.id, "disable", { reason: "second" });
      expect([again.status, again.body.disabled_reason, await version()]).toEqual([200, "first", at]);
      expect(await actions(key.id)).toHaveLength(1);
    });

    it("cannot be rotated, but edited and revoked", async () => {
      const key = await workspace.mint();
      await act(key.id, "disable");
      expectRefusal(await act(key.id, "rotate"), 409, "conflict");
      expect((await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { name: "edited" })).body).toMatchObject({
        name: "edited",
        disabled_reason: null,
      });
      expect(await snapshotIds()).not.toContain(key.id);
      const before = await version();
      expect((await act(key.id, "revoke")).status).toBe(200);
      const { changes } = await feed(`delta?project_id=${workspace.project_id}&since=${before}`);
      expect(changes[0]).toMatchObject({ change: "remove", reason: "revoked" });
      for (const action of ["disable", "enable"]) expectRefusal(await act(key.id, action), 409, "conflict");
    });

    it("reports the nodes with wait=true, when it is disabled and when it is enabled", async () => {
      const key = await workspace.mint();
      const disabled = await act(key.id, "disable?wait=true");
      expect(disabled.body.propagation).toMatchObject({ complete: true, total_nodes: 0, version: await version() });
      expect((await act(key.id, "enable?wait=true")).body.propagation.version).toBe(await version());
    });

    it("of the live environment is out of reach for a test secret key, and of another workspace for everyone", async () => {
      const key = await workspace.mint();
      expectRefusal(await act(key.id, "disable", {}, "sk_test"), 403, "forbidden");
      const other = await instance.workspace();
      expectRefusal(await other.call("sk_owner", `POST /v1/keys/${key.id}/disable`, {}), 404, "not_found");
      expect((await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body.disabled_at).toBeNull();
    });
  });
}
