// Lists of networks that keys may be used from: what is stored, which nodes get such keys, and what is recorded.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";

const CAPABLE = "&caps=cidr";
const LIST = ["203.0.113.0/24", "2001:db8::/32"];

for (const backend of runBackends) {
  describe(`a list of networks on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const patchKey = (workspace: Workspace, id: string, body: object, more = "") =>
      workspace.call("sk_owner", `PATCH /v1/keys/${id}${more}`, body);
    const patchTenant = (workspace: Workspace, body: object, more = "") =>
      workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}${more}`, body);
    const snapshot = async (workspace: Workspace, more = "", project = workspace.project_id): Promise<Json[]> =>
      (await workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${project}${more}`)).body.keys;
    const changes = async (workspace: Workspace, since: number, more = ""): Promise<Json[]> =>
      (
        await workspace.call(
          "sk_owner",
          `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}${more}`,
        )
      ).body.changes;
    const version = async (workspace: Workspace, project = workspace.project_id): Promise<number> =>
      (await workspace.call("sk_owner", `GET /v1/projects/${project}`)).body.policy_version;
    const lastAudit = async (workspace: Workspace): Promise<Json> =>
      (await workspace.call("sk_owner", "GET /v1/audit_logs")).body.data.at(-1);

    it("is stored in canonical form, returned by every answer, and copied by rotation", async () => {
      const workspace = await instance.workspace();
      const plain = await workspace.mint();
      expect(plain).toMatchObject({ allowed_cidrs: null, ip_mode: "enforce" });
      const list = ["203.0.113.0/24", "2001:DB8:0::/32", "::ffff:192.0.2.1", "10.0.0.1"];
      const stored = ["203.0.113.0/24", "2001:db8::/32", "192.0.2.1/32", "10.0.0.1/32"];
      const key = await workspace.mint({ allowed_cidrs: list, ip_mode: "report" });
      const shown = { allowed_cidrs: stored, ip_mode: "report" };
      expect(key).toMatchObject(shown);
      expect((await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body).toMatchObject(shown);
      const rotated = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, {});
      expect(rotated.body).toMatchObject({ ...shown, previous_key: shown });
      const bulk = await workspace.call("sk_owner", "POST /v1/bulk/keys", {
        action: "rotate",
        filter: { ids: [rotated.body.id] },
      });
      const successor = bulk.body.data[0].successor_id;
      expect((await workspace.call("sk_owner", `GET /v1/keys/${successor}`)).body).toMatchObject(shown);
      const external_id = `listed-${workspace.tenant_id}`;
      const tenant = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id, allowed_cidrs: list })).body;
      expect(tenant).toMatchObject({ allowed_cidrs: stored, ip_mode: "enforce" });
      const own = (await workspace.call("sk_owner", `GET /v1/tenants/${workspace.tenant_id}`)).body;
      expect(own).toMatchObject({ allowed_cidrs: [], ip_mode: "enforce" });
    });

    it("is refused entry by entry, and nothing is stored", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const bad = ["10.0.0.0/8", "10.1.2.3/8", "010.0.0.1", "10.0.1", "fe80::1%eth0", "::/129", "::ffff:0:0/90"];
      const wrong = [...bad, "::ffff:10.0.0.0/104"];
      const paths = [1, 2, 3, 4, 5, 6, 7].map((i) => `allowed_cidrs[${i}]`);
      for (const call of [
        () => patchKey(workspace, key.id, { allowed_cidrs: wrong }),
        () => patchTenant(workspace, { allowed_cidrs: wrong }),
      ]) {
        const { status, body } = await call();
        expect([status, body.error.details.map(({ path }: Json) => path)]).toEqual([400, paths]);
        expect(JSON.stringify(body)).not.toContain("10.1.2.3");
      }
      const many = Array.from({ length: 51 }, (_, i) => `10.0.${i}.0/24`);
      for (const body of [{ allowed_cidrs: many }, { ip_mode: "off" }, { allowed_cidrs: "10.0.0.0/8" }])
        expectRefusal(await patchKey(workspace, key.id, body), 400, "invalid_request");
      expectRefusal(await patchTenant(workspace, { allowed_cidrs: null }), 400, "invalid_request");
      expect((await patchKey(workspace, key.id, { allowed_cidrs: many.slice(1) })).status).toBe(200);
      expect((await workspace.actions()).filter((action) => action === "tenant.updated")).toEqual([]);
    });

    it("withholds its keys from nodes that cannot enforce it, and only while it is enforced", async () => {
      const workspace = await instance.workspace();
      const [plain, key] = [await workspace.mint(), await workspace.mint()];
      const before = await version(workspace);
      await patchKey(workspace, key.id, { allowed_cidrs: LIST });
      expect((await snapshot(workspace)).map(({ key_id }) => key_id)).toEqual([plain.id]);
      expect(await changes(workspace, before)).toEqual([
        expect.objectContaining({ change: "remove", key_id: key.id, reason: "unsupported" }),
      ]);
      const capable = await snapshot(workspace, CAPABLE);
      expect(capable.map((entry) => [entry.allowed_cidrs, entry.ip_mode])).toEqual([
        [undefined, undefined],
        [LIST, "enforce"],
      ]);
      expect(await changes(workspace, before, CAPABLE)).toEqual([
        expect.objectContaining({ change: "upsert", key_id: key.id, allowed_cidrs: LIST, ip_mode: "enforce" }),
      ]);
      for (const [edit, entry] of [
        [{ ip_mode: "report" }, { allowed_cidrs: LIST, ip_mode: "report" }],
        [{ allowed_cidrs: [] }, {}],
        [{ allowed_cidrs: null, ip_mode: "enforce" }, {}],
      ] as const) {
        const since = await version(workspace);
        await patchKey(workspace, key.id, edit);
        const [[old], [fresh]] = [await changes(workspace, since), await changes(workspace, since, CAPABLE)];
        expect(old).toMatchObject({ change: "upsert", key_id: key.id });
        expect([old && "allowed_cidrs" in old, old && "ip_mode" in old]).toEqual([false, false]);
        const { allowed_cidrs, ip_mode } = fresh as Json;
        expect({ allowed_cidrs, ip_mode }).toEqual({ allowed_cidrs: undefined, ip_mode: undefined, ...entry });
        expect(await snapshot(workspace)).toHaveLength(2);
      }
    });

    it("of a tenant holds for keys without their own, with its mode, in every project, also for later ones", async () => {
      const workspace = await instance.workspace();
      const second = (await workspace.call("sk_owner", "POST /v1/projects", { name: "second", slug: "second" })).body
        .id;
      const inherits = await workspace.mint();
      const anywhere = await workspace.mint({ allowed_cidrs: [] });
      const own = await workspace.mint({ allowed_cidrs: ["192.0.2.0/24"], ip_mode: "report" });
      const [at, atSecond] = [await version(workspace), await version(workspace, second)];
      const { body } = await patchTenant(workspace, { allowed_cidrs: LIST });
      expect(body).toMatchObject({ allowed_cidrs: LIST, ip_mode: "enforce" });
      // Only projects with its keys learn of it.
      expect([await version(workspace), await version(workspace, second)]).toEqual([at + 1, atSecond]);
      const lists = async (project = workspace.project_id) =>
        Object.fromEntries(
          (await snapshot(workspace, CAPABLE, project)).map((entry) => [
            entry.key_id,
            [entry.allowed_cidrs, entry.ip_mode],
          ]),
        );
      expect(await lists()).toEqual({
        [inherits.id]: [LIST, "enforce"],
        [anywhere.id]: [undefined, undefined],
        [own.id]: [["192.0.2.0/24"], "report"],
      });
      expect((await snapshot(workspace)).map(({ key_id }) => key_id)).toEqual([anywhere.id, own.id]);
      expect((await changes(workspace, at)).map(({ change, reason }) => [change, reason])).toContainEqual([
        "remove",
        "unsupported",
      ]);
      const later = await workspace.mint({ project_id: second });
      expect([await lists(second), await snapshot(workspace, "", second)]).toEqual([
        { [later.id]: [LIST, "enforce"] },
        [],
      ]);
      await patchTenant(workspace, { ip_mode: "report" });
      expect((await lists())[inherits.id]).toEqual([LIST, "report"]);
      expect(await snapshot(workspace)).toHaveLength(3);
      await patchTenant(workspace, { allowed_cidrs: [] });
      expect((await lists())[inherits.id]).toEqual([undefined, undefined]);
    });

    it("is audited with its old and new value; sending it again changes nothing", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      await patchKey(workspace, key.id, { allowed_cidrs: LIST });
      expect(await lastAudit(workspace)).toMatchObject({
        action: "api_key.updated",
        payload: { allowed_cidrs: { old: null, new: LIST } },
      });
      await patchTenant(workspace, { allowed_cidrs: LIST, ip_mode: "report" });
      const audited = await lastAudit(workspace);
      expect(audited).toMatchObject({
        action: "tenant.updated",
        payload: { allowed_cidrs: { old: [], new: LIST }, ip_mode: { old: "enforce", new: "report" } },
      });
      const at = await version(workspace);
      await patchKey(workspace, key.id, { allowed_cidrs: [LIST[0], "2001:0db8::/32"] });
      await patchTenant(workspace, { allowed_cidrs: LIST, ip_mode: "report" });
      expect([await version(workspace), (await lastAudit(workspace)).id]).toEqual([at, audited.id]);
      // Without a list, a mode changes nothing for nodes.
      await patchTenant(workspace, { allowed_cidrs: [] });
      const empty = await version(workspace);
      await patchTenant(workspace, { ip_mode: "enforce" });
      expect(await version(workspace)).toBe(empty);
    });

    it("is not for keys of another environment or workspace", async () => {
      const [workspace, other] = [await instance.workspace(), await instance.workspace()];
      const key = await workspace.mint();
      const edit = { allowed_cidrs: LIST };
      expectRefusal(await workspace.call("sk_test", `PATCH /v1/keys/${key.id}`, edit), 403, "forbidden");
      expectRefusal(
        await workspace.call("sk_test", `PATCH /v1/tenants/${workspace.tenant_id}`, edit),
        403,
        "forbidden",
      );
      expectRefusal(await other.call("sk_owner", `PATCH /v1/keys/${key.id}`, edit), 404, "not_found");
      expectRefusal(await other.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, edit), 404, "not_found");
      expectRefusal(await other.call("sk_owner", `GET /v1/keys/${key.id}/ip_report`), 404, "not_found");
      expectRefusal(await workspace.call("sk_test", `GET /v1/keys/${key.id}/ip_report`), 404, "not_found");
    });

    it("judges the address of a key that is looked up, and of its holder", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint({ allowed_cidrs: LIST });
      const lookUp = async (ip: string | undefined): Promise<Json> =>
        (await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: key.key, ip })).body;
      expect([(await lookUp(undefined)).code, (await lookUp("203.0.113.9")).code]).toEqual([null, null]);
      expect(await lookUp("198.51.100.1")).toMatchObject({ admitted: false, code: "ip_not_allowed" });
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: key.key, ip: "x" }),
        400,
        "invalid_request",
      );
      expectRefusal(await instance.call(key.key, "GET /v1/self"), 403, "ip_not_allowed");
      expectRefusal(await instance.call(key.key, "POST /v1/self/rotate", {}), 403, "ip_not_allowed");
      await patchKey(workspace, key.id, { allowed_cidrs: ["127.0.0.1", "::1"] });
      expect((await instance.call(key.key, "GET /v1/self")).body).toMatchObject({ address_restricted: true });
      await patchKey(workspace, key.id, { allowed_cidrs: LIST, ip_mode: "report" });
      expect((await instance.call(key.key, "GET /v1/self")).body).toMatchObject({ address_restricted: false });
      await patchKey(workspace, key.id, { ip_mode: "enforce" });
      // Stopping a leak is never refused.
      expect((await instance.call(key.key, "POST /v1/self/revoke", {})).status).toBe(200);
    });
  });
}
