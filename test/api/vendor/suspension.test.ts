// Suspending a tenant and resuming it: what nodes get, in every project and environment, and what is recorded.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Json,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { createKeyrack } from "../../../src/sdk/index.ts";

const CAPABLE = "&caps=disabled";

for (const backend of runBackends) {
  describe(`a suspended tenant on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { snapshot_max_keys: "2000" } });

    const act = (workspace: Workspace, action: string, body: object = {}, as: "sk_owner" | "sk_test" = "sk_owner") =>
      workspace.call(as, `POST /v1/tenants/${workspace.tenant_id}/${action}`, body);
    const snapshot = async (workspace: Workspace, more = "", project = workspace.project_id): Promise<Json[]> =>
      (await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${project}${more}`)).body.keys;
    const delta = async (workspace: Workspace, since: number, more = ""): Promise<Json> =>
      (
        await workspace.call(
          "sk_owner",
          `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}${more}`,
        )
      ).body;
    const version = async (workspace: Workspace, project = workspace.project_id): Promise<number> =>
      (await workspace.call("sk_owner", `GET /v1/projects/${project}`)).body.policy_version;
    const newProject = async (workspace: Workspace, slug: string): Promise<string> =>
      (await workspace.call("sk_owner", "POST /v1/projects", { name: slug, slug })).body.id;
    const newTenant = async (workspace: Workspace, external_id: string): Promise<string> =>
      (await workspace.call("sk_owner", "POST /v1/tenants", { external_id })).body.id;

    it("has no active key: not in the list, and not for a bulk action", async () => {
      const workspace = await instance.workspace();
      const active = await workspace.mint({ tenant_id: await newTenant(workspace, "other") });
      const suspended = await workspace.mint();
      const request = { action: "revoke", filter: { all: true, state: "active" } };
      const ids = ({ body }: { body: Json }) => new Set((body.data as Json[]).map(({ id }) => id));
      const both = async () => [
        ids(await workspace.call("sk_owner", "GET /v1/keys?state=active")),
        ids(await workspace.call("sk_owner", "POST /v1/bulk/keys", { ...request, dry_run: true })),
      ];
      await act(workspace, "suspend");
      expect(await both()).toEqual([new Set([active.id]), new Set([active.id])]);
      await act(workspace, "resume");
      const all = new Set([active.id, suspended.id]);
      expect(await both()).toEqual([all, all]);
    });

    it("has no key that works, in any project and environment, until it is resumed; other tenants do", async () => {
      const workspace = await instance.workspace();
      const other = await workspace.mint({ tenant_id: await newTenant(workspace, "other") });
      const second = await newProject(workspace, "second");
      await workspace.mint();
      await workspace.mint({ env: "test" });
      await workspace.mint({ project_id: second });
      const revoked = await workspace.mint();
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      const [at, atSecond] = [await version(workspace), await version(workspace, second)];
      const suspended = await act(workspace, "suspend", { reason: "unpaid" });
      expect([suspended.status, suspended.body]).toEqual([
        200,
        expect.objectContaining({ object: "tenant", suspended_reason: "unpaid", affected_keys: 3 }),
      ]);
      expect([await version(workspace), await version(workspace, second)]).toEqual([at + 1, atSecond + 1]);
      expect((await snapshot(workspace)).map(({ key_id }) => key_id)).toEqual([other.id]);
      expect(await snapshot(workspace, "", second)).toEqual([]);
      const { changes } = await delta(workspace, at);
      expect(changes).toEqual(Array(2).fill(expect.objectContaining({ change: "remove", reason: "tenant_suspended" })));
      expect((await delta(workspace, at, CAPABLE)).changes).toEqual(
        Array(2).fill(expect.objectContaining({ change: "upsert", disabled: "tenant" })),
      );
      const resumed = await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/resume`, {});
      expect(resumed.body).toMatchObject({ suspended_at: null, suspended_reason: null, affected_keys: 3 });
      for (const caps of ["", CAPABLE]) {
        const keys = await snapshot(workspace, caps);
        expect([keys.length, keys.filter((entry) => "disabled" in entry)]).toEqual([3, []]);
        expect((await delta(workspace, at + 1, caps)).changes).toHaveLength(2);
      }
      expect(await workspace.actions()).toEqual(expect.arrayContaining(["tenant.suspended", "tenant.resumed"]));
    });

    it("has one time of its suspension and its change, however long the request took", async () => {
      const clock = testClock();
      const now = (): number => {
        clock.advance(1);
        return clock.now();
      };
      await using slow = await testInstance(backend, { clock: { ...clock, now } });
      const workspace = await slow.workspace();
      const { body } = await act(workspace, "suspend");
      expect(body.suspended_at).toBe(body.updated_at);
    });

    it("is suspended and resumed once: a repetition writes nothing, and the first reason stays", async () => {
      const workspace = await instance.workspace();
      await workspace.mint();
      await act(workspace, "resume");
      await act(workspace, "suspend", { reason: "first" });
      const at = await version(workspace);
      const again = await act(workspace, "suspend", { reason: "second" });
      expect([again.status, again.body.suspended_reason, await version(workspace)]).toEqual([200, "first", at]);
      await act(workspace, "resume");
      const { body } = await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200");
      const rows = (body.data as Json[]).filter(({ target_id }) => target_id === workspace.tenant_id).slice(-2);
      expect(rows.map(({ action, payload }) => [action, payload])).toEqual([
        ["tenant.suspended", { reason: "first", keys: 1 }],
        ["tenant.resumed", { keys: 1 }],
      ]);
    });

    it("refuses keys minted meanwhile too, and resuming keeps a disabled one disabled", async () => {
      const workspace = await instance.workspace();
      await act(workspace, "suspend");
      const [key, disabled] = [await workspace.mint(), await workspace.mint()];
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      expect(await snapshot(workspace)).toEqual([]);
      const states = async () =>
        Object.fromEntries((await snapshot(workspace, CAPABLE)).map((entry) => [entry.key_id, entry.disabled]));
      expect(await states()).toEqual({ [key.id]: "tenant", [disabled.id]: "tenant" });
      const at = await version(workspace);
      // Enabling changes nothing for nodes while the tenant is suspended.
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/enable`, {});
      expect((await delta(workspace, at)).changes).toEqual([expect.objectContaining({ reason: "tenant_suspended" })]);
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      await act(workspace, "resume");
      expect(await states()).toEqual({ [key.id]: undefined, [disabled.id]: "key" });
      expect((await snapshot(workspace)).map(({ key_id }) => key_id)).toEqual([key.id]);
    });

    it("gives nodes the strongest reason: revoked before suspended before disabled", async () => {
      const workspace = await instance.workspace();
      const [a, b] = [await workspace.mint(), await workspace.mint()];
      const at = await version(workspace);
      for (const { id } of [a, b]) await workspace.call("sk_owner", `POST /v1/keys/${id}/disable`, {});
      await act(workspace, "suspend");
      await workspace.call("sk_owner", `POST /v1/keys/${a.id}/revoke`, {});
      const { changes } = (await delta(workspace, at)) as { changes: Json[] };
      expect(Object.fromEntries(changes.map(({ key_id, reason }) => [key_id, reason]))).toEqual({
        [a.id]: "revoked",
        [b.id]: "tenant_suspended",
      });
    });

    it("with many keys costs no change per key: nodes take a new snapshot", async () => {
      const workspace = await instance.workspace();
      const first = await workspace.mint();
      const columns =
        "workspace_id, project_id, tenant_id, env, display_prefix, scopes, meta, created_at, policy_version";
      const ids = Array.from({ length: 600 }, () => instance.app.services.newId());
      for (const [i, id] of ids.entries())
        await instance.sql(
          `insert into api_keys (id, lookup_hash, ${columns}) select '${id}', '${i}-${first.id}', ${columns} from api_keys where id = '${first.id}'`,
        );
      const at = await version(workspace);
      expect((await act(workspace, "suspend")).body.affected_keys).toBe(601);
      const changed = await instance.sql(
        "select count(*) as n from api_keys where project_id = $1 and policy_version > $2",
        [workspace.project_id, at],
      );
      expect(Number(changed[0]?.n)).toBe(0);
      expect(await delta(workspace, at)).toMatchObject({ object: "policy_snapshot", keys: [] });
      const capable = (await delta(workspace, at, CAPABLE)) as { keys: Json[] };
      expect([capable.keys.length, capable.keys.every(({ disabled }) => disabled === "tenant")]).toEqual([601, true]);
      await act(workspace, "resume");
      expect(((await delta(workspace, at + 1)) as { keys: Json[] }).keys).toHaveLength(601);
    });

    it("is acknowledged by the nodes of every project with wait=true, and refused by them with 403", async () => {
      const workspace = await instance.workspace();
      const second = await newProject(workspace, "second");
      const keys = [await workspace.mint(), await workspace.mint({ project_id: second })];
      const nodes = [workspace.project_id, second].map((projectId) =>
        createKeyrack({
          url: instance.url,
          secretKey: workspace.keys.sk_owner,
          projectId,
          nodeId: `node-${projectId}`,
        }),
      );
      const codes = () =>
        nodes.map((node, i) => {
          const verdict = node.verify(keys[i]!.key);
          return verdict.ok ? "200" : `${verdict.status} ${verdict.code}`;
        });
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        await instance.app.services.nodes.flushed();
        for (let round = 0; round < 2; round++) {
          const { body } = await act(workspace, "suspend?wait=true");
          expect(body.propagation).toMatchObject({ complete: true, acked_nodes: 2, total_nodes: 2, withheld_nodes: 0 });
          expect(body.propagation.projects.map(({ project_id }: Json) => project_id)).toEqual(
            [workspace.project_id, second].toSorted(),
          );
          expect(codes()).toEqual(Array(2).fill("403 tenant_suspended"));
          const again = await act(workspace, "suspend?wait=true");
          expect(again.body.propagation).toMatchObject({ complete: true, total_nodes: 2 });
          const resumed = await act(workspace, "resume?wait=true");
          expect(resumed.body.propagation.complete).toBe(true);
          expect(codes()).toEqual(["200", "200"]);
        }
        const switches = (await workspace.actions()).filter((action) => /suspended|resumed/.test(action));
        expect(switches).toEqual(["tenant.suspended", "tenant.resumed", "tenant.suspended", "tenant.resumed"]);
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
      }
    });

    it("needs nothing of nodes: a receipt names none that would lack a capability", async () => {
      const workspace = await instance.workspace();
      const allowed_cidrs = ["203.0.113.0/24"];
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { allowed_cidrs });
      const { id } = await workspace.mint();
      /** Receipts of calls that change nothing, so that the node has acknowledged them already. */
      const receipts = async () => {
        await delta(workspace, await version(workspace), "&node=old");
        await instance.app.services.nodes.flushed();
        const ofKey = await workspace.call("sk_owner", `POST /v1/keys/${id}/enable?wait=true`, {});
        const ofTenant = await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}?wait=true`, {
          allowed_cidrs,
        });
        const [{ withheld_nodes, nodes }, { projects }] = [ofKey.body.propagation, ofTenant.body.propagation];
        return [withheld_nodes, nodes[0].missing_caps, projects[0].nodes[0].missing_caps];
      };
      expect(await receipts()).toEqual([1, ["cidr"], ["cidr"]]);
      await act(workspace, "suspend");
      expect(await receipts()).toEqual([0, [], []]);
    });

    it("without keys has nothing to wait for, and can be deleted while it is suspended", async () => {
      const workspace = await instance.workspace();
      const { body } = await act(workspace, "suspend?wait=true");
      expect([body.affected_keys, body.propagation]).toEqual([
        0,
        { complete: true, waited_ms: 0, acked_nodes: 0, total_nodes: 0, withheld_nodes: 0, projects: [] },
      ]);
      await workspace.mint();
      const deleted = await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect(deleted.body).toMatchObject({ deleted: true, revoked_keys: 1 });
      expectRefusal(await act(workspace, "resume"), 404, "not_found");
    });

    it("is named when one of its keys is looked up", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      await act(workspace, "suspend");
      const { body } = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: key.key });
      expect(body).toMatchObject({ admitted: false, code: "tenant_suspended" });
      expect(body.reasons[0]).toMatchObject({ code: "tenant_suspended", since: expect.any(String) });
    });

    it("is out of reach for a test secret key, and of another workspace for everyone", async () => {
      const workspace = await instance.workspace();
      expectRefusal(await act(workspace, "suspend", {}, "sk_test"), 403, "forbidden");
      const other = await instance.workspace();
      expectRefusal(
        await other.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {}),
        404,
        "not_found",
      );
      expect((await workspace.call("sk_owner", `GET /v1/tenants/${workspace.tenant_id}`)).body.suspended_at).toBeNull();
    });
  });
}
