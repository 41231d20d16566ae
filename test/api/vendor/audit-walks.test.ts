// Filters of a long audit log: a rare row is found through an index, and what no index decides is filtered from a
// bounded number of rows.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { EXAMINED_MAX } from "../../../src/domain/audit/walk.ts";
import { filterAuditRows, lastExamined, listAuditRows } from "../../../src/store/queries/audit.ts";

type Page = { data: { seq: number; action: string; target_id: string }[]; next_cursor: string | null };
type As = "sk_owner" | "sk_test";
const MANY = EXAMINED_MAX + 50;

for (const back of backends) {
  describe(`a long audit log on ${back}`, () => {
    const r = sharedInstance(back);

    const list = async (w: Workspace, query: string, as: As = "sk_owner"): Promise<Page> =>
      (await w.call(as, `GET /v1/audit_logs?${query}`)).body;
    const whole = async (w: Workspace, query: string, as: As = "sk_owner"): Promise<number[]> => {
      const found: number[] = [];
      for (let cursor = ""; ; ) {
        const page = await list(w, query + cursor, as);
        found.push(...page.data.map(({ seq }) => seq));
        if (page.next_cursor === null) return found;
        cursor = `&cursor=${page.next_cursor}`;
      }
    };
    const seqsOf = async (w: Workspace, matches: (row: Record<string, unknown>) => boolean): Promise<number[]> =>
      ((await w.call("sk_owner", "GET /v1/audit_logs?limit=200")).body.data as { seq: number }[])
        .filter((row) => matches(row))
        .map(({ seq }) => seq);

    /** Rows as SQL: what is in them does not matter here, only how many there are. */
    async function append(w: Workspace, columns: { actor: string; action: string; target: string; payload?: string }) {
      const [head] = await r.sql(`select seq from audit_heads where workspace_id = '${w.id}'`);
      const last = Number(head?.seq);
      const { actor, action, target, payload = "{}" } = columns;
      await r.sql(`insert into audit_log with recursive n(i) as
        (select ${last + 1} union all select i + 1 from n where i < ${last + MANY})
        select '${w.id}', i, '${w.id}' || i, 1, '${actor}', null, '${action}', '${action.split(".")[0]}', '${target}',
        '${payload}', 'p' || i, 'h' || i from n`);
      await r.sql(`update audit_heads set seq = ${last + MANY} where workspace_id = '${w.id}'`);
    }

    it("finds rare rows on the first page, whichever filter names them", async () => {
      const w = await r.workspace();
      const plan = await w.call("sk_owner", "POST /v1/plans", { name: "Pro", slug: "pro" });
      await w.call("sk_owner", `PATCH /v1/plans/${plan.body.id}`, { name: "Team" });
      const plans = await seqsOf(w, ({ target_type }) => target_type === "plan");
      const byUser = await seqsOf(w, ({ actor_type }) => actor_type === "user");
      const [user] = await r.sql(
        `select actor_id from audit_log where workspace_id = '${w.id}' and actor_type = 'user'`,
      );
      await append(w, { actor: "secret_key", action: "project.updated", target: w.project_id });
      for (const [query, expected] of [
        ["action=workspace.created", [1]],
        ["action=plan.*", plans],
        ["target_type=plan", plans],
        ["target_type=plan&action=plan.updated", plans.slice(1)],
        ["target_type=tenant&action=plan.updated", []],
        ["target_type=planet", []],
        ["actor_type=user", byUser],
        ["actor_type=bootstrap", [1, 2]],
        [`actor_id=${String(user?.actor_id)}`, byUser],
        [`actor_id=${w.tenant_id}`, []],
        [`actor_id=${String(user?.actor_id)}&action=plan.*`, []],
        [`actor_id=${w.keyIds.sk_owner}&action=plan.*`, plans],
      ] as const) {
        for (const order of ["asc", "desc"]) {
          const { data, next_cursor } = await list(w, `${query}&order=${order}`);
          const found = data.map(({ seq }) => seq);
          expect([query, order, found, next_cursor]).toEqual([
            query,
            order,
            order === "asc" ? expected : expected.toReversed(),
            null,
          ]);
          expect(await whole(w, `${query}&order=${order}&limit=1`)).toEqual(found);
        }
      }
    });

    it("examines a bounded number of rows for what no index decides, and still finds everything", async () => {
      const w = await r.workspace();
      const key = await w.mint();
      const created = await seqsOf(w, ({ action }) => action === "api_key.created");
      const ofProject = await seqsOf(w, ({ target_id }) => target_id === w.project_id);
      const byOwner = await seqsOf(w, ({ actor_id }) => actor_id === w.keyIds.sk_owner);
      await append(w, { actor: "system", action: "project.updated", target: w.project_id });
      for (const [query, expected] of [
        ["action=api_key.created", created],
        ["action=api_key.*", created],
        ["target_type=api_key", created],
        [`actor_id=${w.keyIds.sk_owner}`, byOwner],
        [`target_id=${w.project_id}&action=project.created`, ofProject],
        [`target_id=${w.project_id}&actor_type=secret_key`, ofProject],
        ["action=project.*&actor_type=secret_key", ofProject],
        ["actor_type=system&action=api_key.created", []],
      ] as const) {
        const first = await list(w, `${query}&order=desc`);
        expect([query, first.data, typeof first.next_cursor]).toEqual([query, [], "string"]);
        expect([query, await whole(w, `${query}&order=desc`)]).toEqual([query, expected.toReversed()]);
        expect([query, await whole(w, query)]).toEqual([query, expected]);
        const exported = (await w.call("sk_owner", `GET /v1/audit_logs/export?${query}`)).text;
        expect([query, exported.split("\n").length - 1]).toEqual([query, expected.length]);
      }
      expect((await list(w, `target_id=${key.id}&action=api_key.created`)).next_cursor).toBeNull();
    });

    it("gives a test principal as many pages as its own rows need, and none of the hidden ones", async () => {
      const w = await r.workspace();
      const test = await w.mint({ env: "test" });
      const [created] = await seqsOf(w, ({ target_id }) => target_id === test.id);
      const tenants = await seqsOf(w, ({ target_type }) => target_type === "tenant");
      await append(w, { actor: "user", action: "api_key.revoked", target: "live", payload: '{"env":"live"}' });
      for (const [query, expected] of [
        ["action=api_key.*", [created]],
        ["action=api_key.created", [created]],
        ["action=api_key.revoked", []],
        ["target_type=tenant", tenants],
        ["target_id=live", []],
      ] as const) {
        const { data, next_cursor } = await list(w, `${query}&order=desc`, "sk_test");
        expect([query, data.map(({ seq }) => seq), next_cursor]).toEqual([query, expected, null]);
      }
      await append(w, { actor: "user", action: "api_key.revoked", target: "own", payload: '{"env":"test"}' });
      expect((await list(w, "action=api_key.created&order=desc", "sk_test")).data).toEqual([]);
      expect(await whole(w, "action=api_key.created&order=desc", "sk_test")).toEqual([created]);
    });

    it("reads every filter through its index", async () => {
      const slice = { workspace_id: "w", after_seq: 0, before_seq: 900, order: "desc" } as const;
      for (const [by, index] of [
        ["chain", /audit_log_pkey|sqlite_autoindex_audit_log/],
        ["visible", /audit_log_visible/],
        ["target_id", /audit_log_target/],
        ["actor_id", /audit_log_actor\b/],
        ["actor_type", /audit_log_actor_type/],
        ["action", /audit_log_action/],
      ] as const) {
        const walk = by === "chain" || by === "visible" ? { by } : { by, value: "v" };
        const filter = { actions: ["plan.created"], actor_type: "user", actor_id: "u", isVisible: true } as const;
        for (const read of [
          () => expectNoScan(r.target, (on) => listAuditRows(on, { ...slice, walk }, 50)),
          () => expectNoScan(r.target, (on) => lastExamined(on, { ...slice, walk }, 50)),
          () =>
            expectNoScan(r.target, (on) =>
              filterAuditRows(on, { ...slice, walk }, filter, { examined: 50, limit: 10 }),
            ),
        ]) {
          const plan = await read();
          expect(plan).toMatch(index);
          expect(plan).not.toMatch(/TEMP B-TREE|Sort/);
        }
      }
    });
  });
}
