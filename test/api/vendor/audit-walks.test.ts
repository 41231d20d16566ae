// Filters of a long audit log: a rare row is found through an index, and what no index decides is filtered from a
// bounded number of rows.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { EXAMINED_MAX } from "../../../src/domain/audit/walk.ts";
import { filterAuditRows, lastExamined, listAuditRows } from "../../../src/store/queries/audit.ts";

type Page = { data: { seq: number; action: string; target_id: string }[]; next_cursor: string | null };
type As = "sk_owner" | "sk_test";
const MANY = EXAMINED_MAX + 50;

for (const backend of runBackends) {
  describe(`a long audit log on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const list = async (workspace: Workspace, query: string, as: As = "sk_owner"): Promise<Page> =>
      (await workspace.call(as, `GET /v1/audit_logs?${query}`)).body;
    const whole = async (workspace: Workspace, query: string, as: As = "sk_owner"): Promise<number[]> => {
      const found: number[] = [];
      for (let cursor = ""; ; ) {
        const page = await list(workspace, query + cursor, as);
        found.push(...page.data.map(({ seq }) => seq));
        if (page.next_cursor === null) return found;
        cursor = `&cursor=${page.next_cursor}`;
      }
    };
    const seqsOf = async (
      workspace: Workspace,
      matches: (row: Record<string, unknown>) => boolean,
    ): Promise<number[]> =>
      ((await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200")).body.data as { seq: number }[])
        .filter((row) => matches(row))
        .map(({ seq }) => seq);

    /** Rows as SQL: what is in them does not matter here, only how many there are. */
    async function append(
      workspace: Workspace,
      columns: { actor: string; action: string; target: string; payload?: string },
    ) {
      const [head] = await instance.sql(`select seq from audit_heads where workspace_id = '${workspace.id}'`);
      const last = Number(head?.seq);
      const { actor, action, target, payload = "{}" } = columns;
      await instance.sql(`insert into audit_log with recursive n(i) as
        (select ${last + 1} union all select i + 1 from n where i < ${last + MANY})
        select '${workspace.id}', i, '${workspace.id}' || i, 1, '${actor}', null, '${action}', '${action.split(".")[0]}', '${target}',
        '${payload}', 'p' || i, 'h' || i from n`);
      await instance.sql(`update audit_heads set seq = ${last + MANY} where workspace_id = '${workspace.id}'`);
    }

    it("finds rare rows on the first page, whichever filter names them", async () => {
      const workspace = await instance.workspace();
      const plan = await workspace.call("sk_owner", "POST /v1/plans", { name: "Pro", slug: "pro" });
      await workspace.call("sk_owner", `PATCH /v1/plans/${plan.body.id}`, { name: "Team" });
      const plans = await seqsOf(workspace, ({ target_type }) => target_type === "plan");
      const byUser = await seqsOf(workspace, ({ actor_type }) => actor_type === "user");
      const [user] = await instance.sql(
        `select actor_id from audit_log where workspace_id = '${workspace.id}' and actor_type = 'user'`,
      );
      await append(workspace, { actor: "secret_key", action: "project.updated", target: workspace.project_id });
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
        [`actor_id=${workspace.tenant_id}`, []],
        [`actor_id=${String(user?.actor_id)}&action=plan.*`, []],
        [`actor_id=${workspace.keyIds.sk_owner}&action=plan.*`, plans],
      ] as const) {
        for (const order of ["asc", "desc"]) {
          const { data, next_cursor } = await list(workspace, `${query}&order=${order}`);
          const found = data.map(({ seq }) => seq);
          expect([query, order, found, next_cursor]).toEqual([
            query,
            order,
            order === "asc" ? expected : expected.toReversed(),
            null,
          ]);
          expect(await whole(workspace, `${query}&order=${order}&limit=1`)).toEqual(found);
        }
      }
    });

    it("examines a bounded number of rows for what no index decides, and still finds everything", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const created = await seqsOf(workspace, ({ action }) => action === "api_key.created");
      const ofProject = await seqsOf(workspace, ({ target_id }) => target_id === workspace.project_id);
      const byOwner = await seqsOf(workspace, ({ actor_id }) => actor_id === workspace.keyIds.sk_owner);
      await append(workspace, { actor: "system", action: "project.updated", target: workspace.project_id });
      for (const [query, expected] of [
        ["action=api_key.created", created],
        ["action=api_key.*", created],
        ["target_type=api_key", created],
        [`actor_id=${workspace.keyIds.sk_owner}`, byOwner],
        [`target_id=${workspace.project_id}&action=project.created`, ofProject],
        [`target_id=${workspace.project_id}&actor_type=secret_key`, ofProject],
        ["action=project.*&actor_type=secret_key", ofProject],
        ["actor_type=system&action=api_key.created", []],
      ] as const) {
        const first = await list(workspace, `${query}&order=desc`);
        expect([query, first.data, typeof first.next_cursor]).toEqual([query, [], "string"]);
        expect([query, await whole(workspace, `${query}&order=desc`)]).toEqual([query, expected.toReversed()]);
        expect([query, await whole(workspace, query)]).toEqual([query, expected]);
        const exported = (await workspace.call("sk_owner", `GET /v1/audit_logs/export?${query}`)).text;
        expect([query, exported.split("\n").length - 1]).toEqual([query, expected.length]);
      }
      expect((await list(workspace, `target_id=${key.id}&action=api_key.created`)).next_cursor).toBeNull();
    });

    it("gives a test principal as many pages as its own rows need, and none of the hidden ones", async () => {
      const workspace = await instance.workspace();
      const test = await workspace.mint({ env: "test" });
      const [created] = await seqsOf(workspace, ({ target_id }) => target_id === test.id);
      const tenants = await seqsOf(workspace, ({ target_type }) => target_type === "tenant");
      await append(workspace, { actor: "user", action: "api_key.revoked", target: "live", payload: '{"env":"live"}' });
      for (const [query, expected] of [
        ["action=api_key.*", [created]],
        ["action=api_key.created", [created]],
        ["action=api_key.revoked", []],
        ["target_type=tenant", tenants],
        ["target_id=live", []],
      ] as const) {
        const { data, next_cursor } = await list(workspace, `${query}&order=desc`, "sk_test");
        expect([query, data.map(({ seq }) => seq), next_cursor]).toEqual([query, expected, null]);
      }
      await append(workspace, { actor: "user", action: "api_key.revoked", target: "own", payload: '{"env":"test"}' });
      expect((await list(workspace, "action=api_key.created&order=desc", "sk_test")).data).toEqual([]);
      expect(await whole(workspace, "action=api_key.created&order=desc", "sk_test")).toEqual([created]);
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
          () => expectNoScan(instance.target, (on) => listAuditRows(on, { ...slice, walk }, 50)),
          () => expectNoScan(instance.target, (on) => lastExamined(on, { ...slice, walk }, 50)),
          () =>
            expectNoScan(instance.target, (on) =>
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
