// Deleting a project or tenant with many keys: every reader sees them revoked from the response on, while their rows
// follow in pieces.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { fail } from "../../../src/kernel/errors.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { revokeKey } from "../../../src/domain/keys/keys.ts";
import { runCascades } from "../../../src/domain/workspaces/cascades.ts";

const KEYS = 1_200;

for (const backend of runBackends) {
  describe(`deletions of many keys on ${backend}`, () => {
    const instance = sharedInstance(backend);

    /** Adds copies of a key; returns the id of one of them. */
    async function addKeys(id: string, count = KEYS): Promise<string> {
      const copied = `workspace_id, project_id, tenant_id, env, display_prefix, scopes, created_at, policy_version`;
      const number = backend === "sqlite" ? "printf('%08x', i)" : "lpad(to_hex(i), 8, '0')";
      await instance.sql(
        `insert into api_keys (id, lookup_hash, ${copied}, meta)
         with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
         select ${number} || '-0000-7000-8000-' || substr(id, 25), lookup_hash || i, ${copied}, meta from api_keys, n where id = $1`,
        [id],
      );
      return `00000001-0000-7000-8000-${id.slice(24)}`;
    }

    /** Everything that readers see of the keys. */
    async function seen(workspace: Workspace, id: string, version: number) {
      const get = async (route: string) => (await workspace.call("sk_owner", `GET ${route}`)).body;
      const { revoked_at, revoked_reason } = await get(`/v1/keys/${id}`);
      const all = await get(`/v1/keys?tenant_id=${workspace.tenant_id}&include_revoked=true&limit=100`);
      const snapshot = await get(`/v1/policy/snapshot?project_id=${workspace.project_id}`);
      const delta = await get(`/v1/policy/delta?project_id=${workspace.project_id}&since=${version}`);
      return {
        key: [revoked_at, revoked_reason],
        working: (await get(`/v1/keys?tenant_id=${workspace.tenant_id}`)).data.length as number,
        reasons: [...new Set((all.data as { revoked_reason: string }[]).map((key) => key.revoked_reason))],
        snapshot: (snapshot.keys as { tenant_id: string }[]).filter((key) => key.tenant_id === workspace.tenant_id)
          .length,
        delta: delta.object as string,
        edit: (await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, { name: "x" })).status,
        rotate: (await workspace.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).status,
        revoke: (await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, { reason: "late" })).body
          .revoked_reason,
      };
    }

    const unmarked = async ({ id }: Workspace) => {
      const rows = await instance.sql("select id from api_keys where workspace_id = $1 and revoked_at is null", [id]);
      return rows.length;
    };

    /** Runs the job until it has committed `pieces`, as if the process ended then. */
    async function runPieces(pieces: number): Promise<void> {
      let left = pieces;
      const shutdown = {
        signal: {
          get aborted() {
            return left-- <= 0;
          },
        },
      };
      await runCascades({ ...instance.app.services, shutdown } as never);
    }

    for (const noun of ["tenant", "project"] as const) {
      it(`shows every key of a deleted ${noun} as revoked before, during and after its rows are`, async () => {
        const workspace = await instance.workspace();
        const { id: first } = await workspace.mint({ meta: { note: "x" } });
        const id = await addKeys(first);
        const { policy_version: version } = (
          await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)
        ).body;
        const target = noun === "tenant" ? workspace.tenant_id : workspace.project_id;
        const reply = await workspace.call("sk_owner", `DELETE /v1/${noun}s/${target}`);
        expect(reply.body).toMatchObject({ deleted: true, revoked_keys: KEYS + 1 });
        const deletedAt = new Date(instance.clock.now()).toISOString();
        instance.clock.advance(10);
        const expected = {
          key: [deletedAt, `${noun} deleted`],
          working: 0,
          reasons: [`${noun} deleted`],
          snapshot: 0,
          delta: "policy_snapshot",
          edit: 409,
          rotate: 409,
          revoke: `${noun} deleted`,
        };
        expect(await unmarked(workspace)).toBe(KEYS + 1);
        expect(await seen(workspace, id, version)).toEqual(expected);
        await runPieces(1);
        expect(await unmarked(workspace)).toBe(KEYS + 1 - 100);
        expect(await seen(workspace, id, version)).toEqual(expected);
        await runCascades(instance.app.services);
        expect(await unmarked(workspace)).toBe(0);
        expect(await instance.sql("select * from cascades")).toEqual([]);
        expect(await seen(workspace, id, version)).toEqual(expected);
        expect(await workspace.actions()).toEqual(["api_key.created", `${noun}.deleted`]);
      });
    }

    it("pause after each piece, so that other writes are not behind two of them", async () => {
      const workspace = await instance.workspace();
      await addKeys((await workspace.mint()).id);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      const left: number[] = [];
      await runCascades(instance.app.services, async (ms) => {
        expect(ms).toBeGreaterThan(0);
        left.push(await unmarked(workspace));
      });
      const pieces = Array.from({ length: KEYS / 100 }, (_, i) => KEYS + 1 - 100 * (i + 1));
      expect(left).toEqual([...pieces, 0, 0]); // the last one forgets the deletion
    });

    it("and suspensions of many keys are not refused where no thread is free to count them", async () => {
      const workspace = await instance.workspace();
      await addKeys((await workspace.mint()).id);
      const { threads } = instance.app.services.readSlots;
      const read = vi.spyOn(threads, "run").mockRejectedValue(fail("unavailable"));
      onTestFinished(() => read.mockRestore());
      const suspended = await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {});
      const deleted = await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect(read).toHaveBeenCalledTimes(2);
      expect([suspended.body.affected_keys, deleted.body.revoked_keys]).toEqual([KEYS + 1, KEYS + 1]);
    });

    it("and suspensions count many keys outside of the transaction, which holds every other writer", async () => {
      const workspace = await instance.workspace();
      await addKeys((await workspace.mint()).id);
      const { store } = instance.app.services;
      let [counts, searches] = [0, 0];
      const original = store.write.bind(store);
      const write = vi.spyOn(store, "write").mockImplementation((job) =>
        original({
          ...job,
          work: async (tx) => {
            const [first, all] = [vi.spyOn(tx, "first"), vi.spyOn(tx, "all")];
            const outcome = await job.work(tx);
            counts += first.mock.calls.filter(([{ sql }]) => /count\(.*"api_keys"/.test(sql)).length;
            searches += all.mock.calls.filter(([{ sql }]) => /octet_length.*"api_keys"/.test(sql)).length;
            for (const spy of [first, all]) spy.mockRestore();
            return outcome;
          },
        }),
      );
      onTestFinished(() => write.mockRestore());
      const suspend = `POST /v1/tenants/${workspace.tenant_id}/suspend`;
      const { body: suspended } = await workspace.call("sk_owner", suspend, {});
      const { body: deleted } = await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect([suspended.affected_keys, deleted.revoked_keys, counts]).toEqual([KEYS + 1, KEYS + 1, 0]);
      // While rows are being marked, the transaction does not search among them for others.
      searches = 0;
      const { body: emptied } = await workspace.call("sk_owner", `DELETE /v1/projects/${workspace.project_id}`);
      expect([emptied.revoked_keys, counts, searches]).toEqual([0, 0, 0]);
      const few = await instance.workspace();
      await few.mint();
      const { body } = await few.call("sk_owner", `POST /v1/tenants/${few.tenant_id}/suspend`, {});
      expect([body.affected_keys, counts, searches]).toEqual([1, 1, 1]);
    });

    it("and suspensions count keys that appear or end between the count and the transaction", async () => {
      const workspace = await instance.workspace();
      const { id } = await workspace.mint();
      await addKeys(id);
      const other = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "other" })).body.id as string;
      const gone = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "gone" })).body.id as string;
      await workspace.mint({ tenant_id: gone });
      const { threads } = instance.app.services.readSlots;
      const original = threads.run.bind(threads);
      /** Runs between the count and the transaction of the next change. */
      const meanwhile = (work: () => Promise<unknown>): void => {
        vi.spyOn(threads, "run").mockImplementationOnce(async (...args) => {
          const counted = await original(...args);
          await work();
          return counted;
        });
      };
      meanwhile(async () => {
        await workspace.mint();
        await workspace.mint({ tenant_id: other });
      });
      const suspended = await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {});
      expect(suspended.body.affected_keys).toBe(KEYS + 2);
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/resume`, {});
      meanwhile(async () => {
        const brief = await workspace.mint();
        await workspace.call("sk_owner", `POST /v1/keys/${brief.id}/revoke`, {});
        await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, {}); // -1
        await workspace.call("sk_owner", `POST /v1/keys/${(await workspace.mint()).id}/rotate`, {}); // +2
        await workspace.mint({ tenant_id: other }); // +1
        await workspace.mint({ tenant_id: gone });
        await workspace.call("sk_owner", `DELETE /v1/tenants/${gone}`); // -1, with the key of before
      });
      const deleted = await workspace.call("sk_owner", `DELETE /v1/projects/${workspace.project_id}`);
      await runCascades(instance.app.services);
      const [revoked] = await instance.sql(
        "select count(*) as n from api_keys where project_id = $1 and revoked_cause = 'project_deleted'",
        [workspace.project_id],
      );
      expect([deleted.body.revoked_keys, Number(revoked?.n)]).toEqual([KEYS + 5, KEYS + 5]);
      expect(await unmarked(workspace)).toBe(0);
    });

    it("of a project count again on a thread if a tenant is deleted meanwhile", async () => {
      const { threads } = instance.app.services.readSlots;
      const run = threads.run.bind(threads);
      onTestFinished(() => void vi.restoreAllMocks());
      const remove = async (deletedMeanwhile: number) => {
        const workspace = await instance.workspace();
        await addKeys((await workspace.mint()).id);
        let left = deletedMeanwhile;
        const counts = vi.spyOn(threads, "run").mockImplementation(async (...args) => {
          const counted = await run(...args);
          if (left-- <= 0) return counted;
          const tenant = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: `tenant-${left}` });
          await workspace.mint({ tenant_id: tenant.body.id });
          await workspace.call("sk_owner", `DELETE /v1/tenants/${tenant.body.id}`);
          return counted;
        });
        const { body } = await workspace.call("sk_owner", `DELETE /v1/projects/${workspace.project_id}`);
        return { revoked: body.revoked_keys, counts: counts.mock.calls.length };
      };
      expect(await remove(1)).toEqual({ revoked: KEYS + 1, counts: 2 });
      vi.restoreAllMocks();
      expect(await remove(9)).toEqual({ revoked: KEYS + 1, counts: 3 }); // then the transaction corrects the count
      await runCascades(instance.app.services);
    });

    it("of a project leave out the keys of a tenant that a process with a later clock has deleted", async () => {
      const workspace = await instance.workspace();
      await addKeys((await workspace.mint()).id);
      const other = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "other" })).body.id as string;
      await workspace.mint({ tenant_id: other });
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      await instance.sql("update cascades set revoked_at = revoked_at + 3000 where id = $1", [workspace.tenant_id]);
      const deleted = await workspace.call("sk_owner", `DELETE /v1/projects/${workspace.project_id}`);
      expect(deleted.body.revoked_keys).toBe(1);
      await runCascades(instance.app.services);
    });

    it("counts one of its keys as revoked for nodes from the version of the deletion on", async () => {
      const workspace = await instance.workspace();
      const id = await addKeys((await workspace.mint()).id);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      const { policy_version } = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body;
      const actor = {
        kind: "secret_key",
        id: workspace.keyIds.sk_owner,
        workspace_id: workspace.id,
        env: "live",
      } as const;
      const ctx = { services: instance.app.services, actor: { ...actor, owner_scope: true, expires_at: null } };
      const version = async () => (await revokeKey(ctx as never, id, undefined)).version;
      expect(await version()).toBe(policy_version);
      await runCascades(instance.app.services);
      expect(await version()).toBe(policy_version);
    });

    it("keeps the first reason where project and tenant are deleted one after the other", async () => {
      for (const [first, second] of [
        ["tenant", "project"],
        ["project", "tenant"],
      ] as const) {
        const workspace = await instance.workspace();
        const { id } = await workspace.mint();
        await addKeys(id);
        const remove = async (noun: "tenant" | "project") => {
          const target = noun === "tenant" ? workspace.tenant_id : workspace.project_id;
          const { body } = await workspace.call("sk_owner", `DELETE /v1/${noun}s/${target}`);
          instance.clock.advance(1);
          return body.revoked_keys as number;
        };
        expect([await remove(first), await remove(second)]).toEqual([KEYS + 1, 0]);
        await runCascades(instance.app.services);
        const rows = await instance.sql("select distinct revoked_reason from api_keys where workspace_id = $1", [
          workspace.id,
        ]);
        expect(rows).toEqual([{ revoked_reason: `${first} deleted` }]);
      }
    });

    it("revokes few keys at once, and heavy ones in pieces", async () => {
      const workspace = await instance.workspace();
      const { id } = await workspace.mint({ meta: { note: "x".repeat(15_000) } });
      await addKeys(id, 99);
      const { body } = await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect([body.revoked_keys, await unmarked(workspace)]).toEqual([100, 100]);
      await runPieces(1);
      expect(await unmarked(workspace)).toBe(100 - 69);
      await runCascades(instance.app.services);
      const light = await instance.workspace();
      const key = await light.mint();
      await addKeys(key.id, 99);
      await light.call("sk_owner", `DELETE /v1/tenants/${light.tenant_id}`);
      expect(await unmarked(light)).toBe(0);
    });
  });
}
