// Deleting a project or tenant with many keys: every reader sees them revoked from the response on, while their rows
// follow in pieces.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { fail } from "../../../src/kernel/errors.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { revokeKey } from "../../../src/domain/keys/keys.ts";
import { runCascades } from "../../../src/domain/workspaces/cascades.ts";

const KEYS = 1_200;

for (const back of backends) {
  describe(`deletions of many keys on ${back}`, () => {
    const r = sharedInstance(back);

    /** Adds copies of a key; returns the id of one of them. */
    async function addKeys(id: string, count = KEYS): Promise<string> {
      const copied = `workspace_id, project_id, tenant_id, env, display_prefix, scopes, created_at, policy_version`;
      const number = back === "sqlite" ? "printf('%08x', i)" : "lpad(to_hex(i), 8, '0')";
      await r.sql(
        `insert into api_keys (id, lookup_hash, ${copied}, meta)
         with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
         select ${number} || '-0000-7000-8000-' || substr(id, 25), lookup_hash || i, ${copied}, meta from api_keys, n where id = $1`,
        [id],
      );
      return `00000001-0000-7000-8000-${id.slice(24)}`;
    }

    /** Everything that readers see of the keys. */
    async function seen(w: Workspace, id: string, version: number) {
      const get = async (route: string) => (await w.call("sk_owner", `GET ${route}`)).body;
      const { revoked_at, revoked_reason } = await get(`/v1/keys/${id}`);
      const all = await get(`/v1/keys?tenant_id=${w.tenant_id}&include_revoked=true&limit=100`);
      const snapshot = await get(`/v1/policy/snapshot?project_id=${w.project_id}`);
      const delta = await get(`/v1/policy/delta?project_id=${w.project_id}&since=${version}`);
      return {
        key: [revoked_at, revoked_reason],
        working: (await get(`/v1/keys?tenant_id=${w.tenant_id}`)).data.length as number,
        reasons: [...new Set((all.data as { revoked_reason: string }[]).map((key) => key.revoked_reason))],
        snapshot: (snapshot.keys as { tenant_id: string }[]).filter((key) => key.tenant_id === w.tenant_id).length,
        delta: delta.object as string,
        edit: (await w.call("sk_owner", `PATCH /v1/keys/${id}`, { name: "x" })).status,
        rotate: (await w.call("sk_owner", `POST /v1/keys/${id}/rotate`, {})).status,
        revoke: (await w.call("sk_owner", `POST /v1/keys/${id}/revoke`, { reason: "late" })).body.revoked_reason,
      };
    }

    const unmarked = async (w: Workspace) =>
      Number(
        (await r.sql("select count(*) as n from api_keys where workspace_id = $1 and revoked_at is null", [w.id]))[0]
          ?.n,
      );

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
      await runCascades({ ...r.app.services, shutdown } as never);
    }

    for (const noun of ["tenant", "project"] as const) {
      it(`shows every key of a deleted ${noun} as revoked before, during and after its rows are`, async () => {
        const w = await r.workspace();
        const { id: first } = await w.mint({ meta: { note: "x" } });
        const id = await addKeys(first);
        const { policy_version: version } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
        const target = noun === "tenant" ? w.tenant_id : w.project_id;
        const reply = await w.call("sk_owner", `DELETE /v1/${noun}s/${target}`);
        expect(reply.body).toMatchObject({ deleted: true, revoked_keys: KEYS + 1 });
        const deletedAt = new Date(r.clock.now()).toISOString();
        r.clock.advance(10);
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
        expect(await unmarked(w)).toBe(KEYS + 1);
        expect(await seen(w, id, version)).toEqual(expected);
        await runPieces(1);
        expect(await unmarked(w)).toBe(KEYS + 1 - 500);
        expect(await seen(w, id, version)).toEqual(expected);
        await runCascades(r.app.services);
        expect(await unmarked(w)).toBe(0);
        expect(await r.sql("select * from cascades")).toEqual([]);
        expect(await seen(w, id, version)).toEqual(expected);
        expect(await w.actions()).toEqual(["api_key.created", `${noun}.deleted`]);
      });
    }

    it("pause after each piece, so that other writes are not behind two of them", async () => {
      const w = await r.workspace();
      await addKeys((await w.mint()).id);
      await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      const left: number[] = [];
      await runCascades(r.app.services, async (ms) => {
        expect(ms).toBeGreaterThan(0);
        left.push(await unmarked(w));
      });
      expect(left).toEqual([701, 201, 0, 0]); // the last one forgets the deletion
    });

    it("and suspensions of many keys are not refused where no thread is free to count them", async () => {
      const w = await r.workspace();
      await addKeys((await w.mint()).id);
      const { threadReads } = r.app.services;
      const read = vi.spyOn(threadReads, "run").mockRejectedValue(fail("unavailable"));
      onTestFinished(() => read.mockRestore());
      const suspended = await w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/suspend`, {});
      const deleted = await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      expect(read).toHaveBeenCalledTimes(2);
      expect([suspended.body.affected_keys, deleted.body.revoked_keys]).toEqual([KEYS + 1, KEYS + 1]);
    });

    it("and suspensions count many keys outside of the transaction, which holds every other writer", async () => {
      const w = await r.workspace();
      await addKeys((await w.mint()).id);
      const { store } = r.app.services;
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
      const { body: suspended } = await w.call("sk_owner", `POST /v1/tenants/${w.tenant_id}/suspend`, {});
      const { body: deleted } = await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      expect([suspended.affected_keys, deleted.revoked_keys, counts]).toEqual([KEYS + 1, KEYS + 1, 0]);
      // While rows are being marked, the transaction does not search among them for others.
      searches = 0;
      const { body: emptied } = await w.call("sk_owner", `DELETE /v1/projects/${w.project_id}`);
      expect([emptied.revoked_keys, counts, searches]).toEqual([0, 0, 0]);
      const few = await r.workspace();
      await few.mint();
      const { body } = await few.call("sk_owner", `POST /v1/tenants/${few.tenant_id}/suspend`, {});
      expect([body.affected_keys, counts, searches]).toEqual([1, 1, 1]);
    });

    it("counts one of its keys as revoked for nodes from the version of the deletion on", async () => {
      const w = await r.workspace();
      const id = await addKeys((await w.mint()).id);
      await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      const { policy_version } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
      const actor = { kind: "secret_key", id: w.keyIds.sk_owner, workspace_id: w.id, env: "live" } as const;
      const ctx = { services: r.app.services, actor: { ...actor, owner_scope: true, expires_at: null } };
      const version = async () => (await revokeKey(ctx as never, id, undefined)).version;
      expect(await version()).toBe(policy_version);
      await runCascades(r.app.services);
      expect(await version()).toBe(policy_version);
    });

    it("keeps the first reason where project and tenant are deleted one after the other", async () => {
      for (const [first, second] of [
        ["tenant", "project"],
        ["project", "tenant"],
      ] as const) {
        const w = await r.workspace();
        const { id } = await w.mint();
        await addKeys(id);
        const remove = async (noun: "tenant" | "project") => {
          const target = noun === "tenant" ? w.tenant_id : w.project_id;
          const { body } = await w.call("sk_owner", `DELETE /v1/${noun}s/${target}`);
          r.clock.advance(1);
          return body.revoked_keys as number;
        };
        expect([await remove(first), await remove(second)]).toEqual([KEYS + 1, 0]);
        await runCascades(r.app.services);
        const rows = await r.sql("select distinct revoked_reason from api_keys where workspace_id = $1", [w.id]);
        expect(rows).toEqual([{ revoked_reason: `${first} deleted` }]);
      }
    });

    it("revokes few keys at once, and heavy ones in pieces", async () => {
      const w = await r.workspace();
      const { id } = await w.mint({ meta: { note: "x".repeat(15_000) } });
      await addKeys(id, 99);
      const { body } = await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      expect([body.revoked_keys, await unmarked(w)]).toEqual([100, 100]);
      await runPieces(1);
      expect(await unmarked(w)).toBe(100 - 69);
      await runCascades(r.app.services);
      const light = await r.workspace();
      const key = await light.mint();
      await addKeys(key.id, 99);
      await light.call("sk_owner", `DELETE /v1/tenants/${light.tenant_id}`);
      expect(await unmarked(light)).toBe(0);
    });
  });
}
