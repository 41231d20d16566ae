// Pages end at the maximum size of an answer, with at least one row, and nothing is lost or repeated between two pages.
import { beforeAll, describe, expect, it } from "vitest";
import { PIECE_ROWS } from "../../src/domain/core/list.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const ANSWER_MAX = 262_144;
const META = { text: "x".repeat(16_000) };
const SCOPES = Array.from({ length: 64 }, (_, i) => `${i}:`.padEnd(200, "s"));
const ROWS = 30;

for (const backend of runBackends) {
  describe(`on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { answer_max_bytes: String(ANSWER_MAX) } });
    let workspace: Workspace;
    let keyIds: string[];
    const tenantIds: string[] = [];
    beforeAll(async () => {
      workspace = await instance.workspace();
      for (let i = 0; i < ROWS; i++) {
        const reply = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: `t${i}`, meta: META });
        tenantIds.push(reply.body.id);
      }
      const made = await Promise.all(
        Array.from({ length: ROWS }, () => workspace.mint({ scopes: SCOPES, meta: META })),
      );
      keyIds = made.map(({ id }) => id).toSorted();
    });

    async function allPages(path: string): Promise<{ ids: string[]; pages: number }> {
      const ids: string[] = [];
      for (let pages = 1, after = ""; ; pages++) {
        const { status, text, body } = await workspace.call("sk_owner", `GET ${path}${after}`);
        expect(status).toBe(200);
        expect(text.length).toBeLessThanOrEqual(ANSWER_MAX + 100);
        ids.push(...body.data.map(({ id }: { id: string }) => id));
        if (!body.has_more) return { ids, pages };
        after = `${path.includes("?") ? "&" : "?"}after=${ids.at(-1)}`;
      }
    }

    it("a list of heavy tenants takes several pages and has each once", async () => {
      const { ids, pages } = await allPages("/v1/tenants");
      expect(ids).toEqual([...tenantIds.toReversed(), workspace.tenant_id]);
      expect(pages).toBe(2);
    });

    it("a list of heavy keys takes several pages and has each once", async () => {
      const { ids, pages } = await allPages("/v1/keys?limit=200");
      expect(ids.toSorted()).toEqual(keyIds);
      expect(pages).toBe(4);
    });

    it("a snapshot is cut between keys, and is 413 for a caller that does not page", async () => {
      const path = `GET /v1/policy/snapshot?project_id=${workspace.project_id}`;
      expectRefusal(await workspace.call("sk_owner", path), 413, "snapshot_too_large");
      const ids: string[] = [];
      let pages = 0;
      for (let cursor: string | null = ""; cursor !== null; pages++) {
        const { text, body } = await workspace.call("sk_owner", `${path}&max_keys=10000${cursor}`);
        expect(text.length).toBeLessThanOrEqual(ANSWER_MAX + 1_000);
        ids.push(...body.keys.map(({ key_id }: { key_id: string }) => key_id));
        cursor = body.next_cursor && `&cursor=${encodeURIComponent(body.next_cursor)}`;
      }
      expect(ids).toEqual(keyIds);
      expect(pages).toBe(2);
    });

    it("a delta is cut at a version, and the next one continues there", async () => {
      const ids: string[] = [];
      let pages = 0;
      for (let since = 1; ; pages++) {
        const { status, text, body } = await workspace.call(
          "sk_owner",
          `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}&max_keys=10000`,
        );
        if (status === 304) break;
        expect(text.length).toBeLessThanOrEqual(ANSWER_MAX + 1_000);
        expect(body).toMatchObject({ object: "policy_delta", since });
        ids.push(...body.changes.map(({ key_id }: { key_id: string }) => key_id));
        since = body.version;
      }
      expect(ids.toSorted()).toEqual(keyIds);
      expect(pages).toBe(2);
    });

    it("a page has at least one row, however large that is", async () => {
      const own = await instance.workspace();
      const { services } = instance.app;
      const before = services.settings.answer_max_bytes;
      Object.assign(services.settings, { answer_max_bytes: 100 });
      const { body } = await own.call("sk_owner", "GET /v1/tenants");
      Object.assign(services.settings, { answer_max_bytes: before });
      expect(body.data).toHaveLength(1);
    });

    it("a list of plain rows is one answer, complete at the borders of the pieces it is read in", async () => {
      const own = await instance.workspace();
      const copies = (count: number): string =>
        backend === "sqlite"
          ? `with recursive s(n) as (select 1 union all select n + 1 from s where n < ${count}) select n from s`
          : `select n from generate_series(1, ${count}) as s(n)`;
      const hex = (bytes: number): string => `lower(hex(randomblob(${bytes})))`;
      const id = backend === "sqlite" ? `${hex(4)} || '-0000-4000-8000-' || ${hex(6)}` : "gen_random_uuid()::text";
      const columns = "workspace_id, meta, updated_at";
      const fill = (count: number, name: string) =>
        instance.sql(
          `insert into tenants (id, external_id, created_at, ${columns}) select ${id}, '${name}' || n, 1, ${columns} from (${copies(count)}) as s cross join (select * from tenants where id = '${own.tenant_id}') as t`,
        );
      for (const [more, all] of [
        [PIECE_ROWS - 1, PIECE_ROWS],
        [1, PIECE_ROWS + 1],
      ] as const) {
        await fill(more, `e${all}-`);
        const { body } = await own.call("sk_owner", "GET /v1/tenants");
        expect(new Set(body.data.map((row: { id: string }) => row.id)).size).toBe(all);
        expect([body.data.length, body.has_more]).toEqual([all, undefined]);
      }
    });
  });
}
