// A project's own key prefix: who may claim it, what is minted with it, and what nodes learn of it.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { createKeyrack } from "../../../src/sdk/index.ts";
import { until } from "../../../harness/waiting.ts";

const FORMATS = "&caps=formats";

for (const backend of runBackends) {
  describe(`a key prefix on ${backend}`, () => {
    const instance = sharedInstance(backend);

    let serial = 0;
    /** Prefixes belong to a workspace for ever, and the tests share a deployment. */
    const fresh = (): string => `t${(serial++).toString(36)}x`;
    const create = (workspace: Workspace, slug: string, body: Json = {}) =>
      workspace.call("sk_owner", "POST /v1/projects", { name: slug, slug, ...body });
    const change = (workspace: Workspace, key_prefix: string, id = workspace.project_id) =>
      workspace.call("sk_owner", `PATCH /v1/projects/${id}`, { key_prefix });
    const feed = async (workspace: Workspace, path: string): Promise<Json> =>
      (await workspace.call("sk_owner", `GET /v1/policy/${path}`)).body;

    it("is kr until one is chosen; only keys minted afterwards have the new one", async () => {
      const workspace = await instance.workspace();
      const [a, b] = [fresh(), fresh()];
      const before = await workspace.mint();
      const { body: project } = await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`);
      expect([project.key_prefix, project.key_prefixes]).toEqual(["kr", ["kr"]]);
      const changed = await change(workspace, a);
      expect([changed.status, changed.body.key_prefixes, changed.body.policy_version]).toEqual([
        200,
        [a, "kr"],
        project.policy_version + 1,
      ]);
      expect(changed.body).not.toHaveProperty("warnings");
      const key = await workspace.mint();
      expect([key.key.slice(0, a.length + 6), key.display_prefix]).toEqual([
        `${a}_live_`,
        key.key.slice(0, a.length + 12),
      ]);
      const rotated = await workspace.call("sk_owner", `POST /v1/keys/${before.id}/rotate`, {});
      expect(rotated.body.key.startsWith(`${a}_live_`)).toBe(true);
      expect(rotated.body.previous_key.display_prefix).toBe(before.display_prefix);
      expect((await change(workspace, b)).body.key_prefixes).toEqual([b, a, "kr"]);
      expect((await change(workspace, "kr")).body.key_prefixes).toEqual(["kr", b, a]);
      const same = await change(workspace, "kr");
      expect(same.body.updated_at).toBe((await change(workspace, "kr")).body.updated_at); // nothing written
      const { body: log } = await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200");
      const payloads = (log.data as Json[]).filter(({ action }) => action === "project.updated");
      expect(payloads.map(({ payload }) => payload)).toEqual([
        { key_prefix: { old: "kr", new: a } },
        { key_prefix: { old: a, new: b } },
        { key_prefix: { old: b, new: "kr" } },
      ]);
    });

    it("is refused when it is malformed, of our own family, or another issuer's", async () => {
      const workspace = await instance.workspace();
      for (const key_prefix of ["a", "Acme", "ac_me", "northwinds", "krsk", "krx", "sk", "ghp", "test", ""]) {
        expectRefusal(await change(workspace, key_prefix), 400, "invalid_request", "key_prefix");
        expectRefusal(await create(workspace, "other", { key_prefix }), 400, "invalid_request", "key_prefix");
      }
    });

    it("belongs to the first workspace that uses it, whose projects may share it", async () => {
      const [workspace, other] = [await instance.workspace(), await instance.workspace()];
      const prefix = fresh();
      expect((await change(workspace, prefix)).status).toBe(200);
      const second = await create(workspace, "second", { key_prefix: prefix });
      expect([second.status, second.body.key_prefix, second.body.key_prefixes]).toEqual([201, prefix, [prefix]]);
      for (const taken of [await change(other, prefix), await create(other, "second", { key_prefix: prefix })]) {
        expectRefusal(taken, 409, "conflict", "key_prefix");
        expect(taken.body.error.message).toBe("That key prefix belongs to another workspace.");
      }
      await change(workspace, "kr");
      expectRefusal(await change(other, prefix), 409, "conflict", "key_prefix"); // for ever
      expect((await other.call("sk_owner", `GET /v1/projects/${other.project_id}`)).body.key_prefix).toBe("kr");
    });

    it("is given to one of two workspaces that claim it at the same time", async () => {
      const workspaces = [await instance.workspace(), await instance.workspace(), await instance.workspace()];
      const prefix = fresh();
      const replies = await Promise.all(workspaces.map((workspace) => change(workspace, prefix)));
      expect(replies.map(({ status }) => String(status)).toSorted()).toEqual(["200", "409", "409"]);
      expect(await instance.sql("select workspace_id from key_prefixes where prefix = $1", [prefix])).toHaveLength(1);
    });

    it("is one of 8 of a project and of 20 of a workspace", async () => {
      const workspace = await instance.workspace();
      for (let i = 0; i < 7; i++) expect((await change(workspace, fresh())).status).toBe(200);
      expectRefusal(await change(workspace, fresh()), 409, "conflict", "key_prefix");
      for (let i = 0; i < 13; i++)
        expect((await create(workspace, `p-${i}`, { key_prefix: fresh() })).status).toBe(201);
      const refused = await create(workspace, "too-many", { key_prefix: fresh() });
      expectRefusal(refused, 409, "conflict", "key_prefix");
      expect(refused.body.error.message).toContain("limit of key prefixes");
    });

    it("is claimed by test keys at most five times, which leaves fifteen of the twenty for live", async () => {
      const workspace = await instance.workspace();
      const byTest = (slug: string, key_prefix: string) =>
        workspace.call("sk_test", "POST /v1/projects", { name: slug, slug, key_prefix });
      const claimed = fresh();
      expect((await byTest("t-0", claimed)).status).toBe(201);
      for (let i = 1; i < 5; i++) expect((await byTest(`t-${i}`, fresh())).status).toBe(201);
      const refused = await byTest("too-many", fresh());
      expectRefusal(refused, 409, "conflict", "key_prefix");
      expect((await byTest("again", claimed)).status).toBe(201);
      for (let i = 0; i < 15; i++)
        expect((await create(workspace, `l-${i}`, { key_prefix: fresh() })).status).toBe(201);
      expectRefusal(await create(workspace, "l-15", { key_prefix: fresh() }), 409, "conflict", "key_prefix");
      const { body } = await workspace.call("sk_owner", "GET /v1/audit_logs?action=project.created&limit=200");
      const slugs = body.data.map(({ payload }: { payload: { slug: string } }) => payload.slug);
      expect(slugs).toEqual(expect.arrayContaining(["t-4", "again", "l-14"]));
      expect(slugs).not.toContain("too-many");
    });

    it("stays the workspace's where it has more than twenty from before", async () => {
      const workspace = await instance.workspace();
      const claimed = Array.from({ length: 25 }, fresh);
      for (const [i, prefix] of claimed.entries())
        await instance.sql(
          `insert into key_prefixes (prefix, workspace_id, claimed_at, created_env)
            values ('${prefix}', '${workspace.id}', 0, '${i < 20 ? "live" : "test"}')`,
        );
      for (const [i, prefix] of claimed.entries())
        expect((await create(workspace, `e-${i}`, { key_prefix: prefix })).status).toBe(201);
      expectRefusal(await change(workspace, fresh()), 409, "conflict", "key_prefix");
    });

    it("is not claimed by a test key where live has claimed all", async () => {
      const workspace = await instance.workspace();
      for (let i = 0; i < 20; i++)
        expect((await create(workspace, `l-${i}`, { key_prefix: fresh() })).status).toBe(201);
      const body = { name: "tested", slug: "tested", key_prefix: fresh() };
      const refused = await workspace.call("sk_test", "POST /v1/projects", body);
      expectRefusal(refused, 409, "conflict", "key_prefix");
    });

    it("reaches nodes that know formats with the first such key, and keys with it reach no other", async () => {
      const workspace = await instance.workspace();
      const prefix = fresh();
      const project = `project_id=${workspace.project_id}`;
      await workspace.mint();
      const { version } = (await feed(workspace, `snapshot?${project}`)) as { version: number };
      await change(workspace, prefix);
      const key = await workspace.mint();
      const since = `delta?${project}&since=${version}`;
      expect(await feed(workspace, since + FORMATS)).toMatchObject({
        key_prefixes: [prefix, "kr"],
        changes: [{ change: "upsert", key_id: key.id }],
      });
      const old = await feed(workspace, since);
      expect(old).toMatchObject({ changes: [{ change: "remove", key_id: key.id, reason: "unsupported" }] });
      for (const caps of ["", "&caps=cidr,disabled"]) {
        const { keys, ...head } = (await feed(workspace, `snapshot?${project}${caps}`)) as { keys: Json[] };
        expect([keys.length, "key_prefixes" in head]).toEqual([1, false]);
      }
      const capable = (await feed(workspace, `snapshot?${project}${FORMATS}`)) as {
        keys: Json[];
        key_prefixes: string[];
      };
      expect([capable.keys.length, capable.key_prefixes]).toEqual([2, [prefix, "kr"]]);
      // A later change of the same key is withheld too, and so is a page that is already cached.
      await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { scopes: ["a"] });
      for (let i = 0; i < 2; i++) {
        expect((await feed(workspace, since)).changes).toMatchObject([{ change: "remove", key_id: key.id }]);
        expect((await feed(workspace, since + FORMATS)).changes).toMatchObject([{ change: "upsert", scopes: ["a"] }]);
      }
    });

    it("is on the successors of a bulk rotation, and its holder may use the key to look at it", async () => {
      const workspace = await instance.workspace();
      const prefix = fresh();
      const key = await workspace.mint();
      await change(workspace, prefix);
      const { body } = await workspace.call("sk_owner", "POST /v1/bulk/keys", {
        action: "rotate",
        filter: { ids: [key.id] },
      });
      const successor = body.data[0].key as string;
      expect(successor.startsWith(`${prefix}_live_`)).toBe(true);
      const self = await instance.call(successor, "GET /v1/self");
      expect([self.status, self.body.display_prefix]).toEqual([200, successor.slice(0, prefix.length + 12)]);
      expectRefusal(await instance.call(`${successor.slice(0, -1)}x`, "GET /v1/self"), 401, "invalid_key");
    });

    it("is verified in place, looked up, and refused by the control plane itself", async () => {
      const workspace = await instance.workspace();
      const prefix = fresh();
      const own = await workspace.mint();
      await change(workspace, prefix);
      const [key, test] = [await workspace.mint({ scopes: ["a"] }), await workspace.mint({ env: "test" })];
      const node = createKeyrack({
        url: instance.url,
        secretKey: workspace.keys.sk_owner,
        projectId: workspace.project_id,
      });
      try {
        await node.ready();
        expect(node.verify(key.key, { scopes: ["a"] })).toMatchObject({
          ok: true,
          context: { keyId: key.id, env: "live", displayPrefix: key.display_prefix },
        });
        expect(node.verify(test.key)).toMatchObject({ context: { env: "test", displayPrefix: test.display_prefix } });
        expect(node.verify(own.key).ok).toBe(true);
        expect(node.verify(`x${key.key}`)).toMatchObject({ code: "invalid_key" });
        expect(node.status().caps).toContain("formats");
        const later = fresh();
        await change(workspace, later);
        const minted = await workspace.mint();
        await until(() => node.verify(minted.key).ok);
      } finally {
        await node.close();
      }
      expectRefusal(await instance.call(key.key, "GET /v1/workspace"), 401, "invalid_key");
      expectRefusal(await instance.call(`${key.key.slice(0, -1)}g`, "GET /v1/workspace"), 401, "unauthenticated");
      const { body: found } = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: key.key });
      expect(found).toMatchObject({ kind: "api_key", admitted: true, display_prefix: key.display_prefix });
      const stripe = `sk_live_${"a".repeat(40)}`;
      const { body: other } = await workspace.call("sk_owner", "POST /v1/keys/lookup", { key: stripe });
      expect(other).toMatchObject({ kind: null, display_prefix: null, found: false });
      expectRefusal(await workspace.call("sk_owner", `GET /v1/keys?q=${key.key}`), 400, "invalid_request");
    });
  });
}
