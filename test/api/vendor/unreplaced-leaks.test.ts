// The overview's figure of leaked keys: those that still need a successor.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { scannerFixture } from "../../../harness/instances/scanner.ts";
import type { Json, Workspace } from "../../../harness/instances/test-instance.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";
import { countLeakedKeys } from "../../../src/store/queries/unreplaced-leaks.ts";

for (const backend of runBackends) {
  describe(`leaked keys in the overview on ${backend}`, () => {
    const { now: instance, labels } = scannerFixture(backend);

    const leaks = async (workspace: Workspace): Promise<Json> => {
      instance().clock.advance(3_000); // figures are kept for two seconds
      return (await workspace.call("sk_owner", "GET /v1/overview")).body.leaks;
    };
    const inAnHour = (): string => new Date(instance().clock.now() + 60 * MINUTE_MS).toISOString();
    const newSecretKey = async (workspace: Workspace, body: object = {}): Promise<{ id: string; key: string }> =>
      (await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", name: "leaky", ...body })).body;

    it("count API keys and secret keys until each has a successor, and say when the first stops", async () => {
      const workspace = await instance().workspace();
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
      const secret = await newSecretKey(workspace);
      await labels(secret.key);
      const listed = async (query: string, by: "sk_owner" | "sk_test" = "sk_owner"): Promise<string[]> =>
        (await workspace.call(by, `GET /v1/secret_keys?${query}`)).body.data.map(({ id }: { id: string }) => id);
      expect(await listed("state=quarantined")).toEqual([secret.id]);
      expect(await listed("state=quarantined&env=live&limit=1")).toEqual([secret.id]);
      expect(await listed("state=quarantined&env=test")).toEqual([]);
      expect(await listed("state=quarantined", "sk_test")).toEqual([]);
      expect(await listed("env=test")).toEqual([workspace.keyIds.sk_test]);
      const first = inAnHour();
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: first });
      instance().clock.advance(10 * MINUTE_MS);
      const key = await workspace.mint({ name: "CI" });
      await labels(key.key);
      const second = inAnHour();
      expect(await leaks(workspace)).toEqual({ unreplaced: 2, stops_at: first });
      const other = (await workspace.call("sk_test", "GET /v1/overview")).body;
      expect(other.leaks).toEqual({ unreplaced: 0, stops_at: null });

      await workspace.call("sk_owner", `POST /v1/secret_keys/${secret.id}/rotate`, {});
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: second });
      const rotated = (await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, {})).body;
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
      const { body } = await workspace.call("sk_owner", "GET /v1/overview");
      expect(body.keys.quarantined).toBe(1); // as the list of that state
      await workspace.call("sk_owner", `POST /v1/keys/${rotated.id}/revoke`, {});
      await workspace.call("sk_owner", `POST /v1/secret_keys/${secret.id}/revoke`, {});
      expect(await listed("state=quarantined")).toEqual([]);
      expect(await leaks(workspace)).toEqual({ unreplaced: 1, stops_at: second });
      instance().clock.advance(60 * MINUTE_MS);
      expect(await leaks(workspace)).toEqual({ unreplaced: 0, stops_at: null });
    });

    it("show a key of one project nothing of others", async () => {
      const workspace = await instance().workspace();
      const own = (await workspace.call("sk_owner", "POST /v1/projects", { name: "Own", slug: "own" })).body
        .id as string;
      const restricted = await newSecretKey(workspace, { permissions: ["read"], project_ids: [own] });
      const [elsewhere, here] = [
        await workspace.mint({ name: "a" }),
        await workspace.mint({ name: "b", project_id: own }),
      ];
      await labels((await newSecretKey(workspace)).key, elsewhere.key);
      const seen = async (): Promise<number> =>
        (await instance().call(restricted.key, "GET /v1/overview")).body.leaks.unreplaced;
      expect(await seen()).toBe(0);
      await labels(here.key);
      expect(await seen()).toBe(1);
      expect((await leaks(workspace)).unreplaced).toBe(3);
    });

    it("are counted in pieces, up to a thousand, and through an index", async () => {
      const workspace = await instance().workspace();
      const { id } = await workspace.mint();
      const now = instance().clock.now();
      await instance().sql(`update api_keys set quarantined_at = ${now}, expires_at = ${now + 60 * MINUTE_MS}
        where id = '${id}'`);
      const COPIED =
        "workspace_id, project_id, tenant_id, env, display_prefix, scopes, meta, created_at, policy_version, quarantined_at";
      const copy = (from: number, to: number): Promise<unknown> =>
        instance().sql(`with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})
          insert into api_keys (id, lookup_hash, expires_at, ${COPIED})
          select '01900000' || substr('${id}', 9, 16) || cast(100000000000 + i as text), '${id}' || cast(i as text), ${now + 30 * MINUTE_MS} + i, ${COPIED}
          from n, api_keys where api_keys.id = '${id}'`);
      await copy(1, 600);
      const first = new Date(now + 30 * MINUTE_MS + 1).toISOString();
      expect(await leaks(workspace)).toEqual({ unreplaced: 601, stops_at: first });
      await copy(601, 1_200);
      expect((await leaks(workspace)).unreplaced).toBe(1_000);
      const scope = {
        workspace_id: workspace.id,
        env: "live",
        now,
        after: { at: 1, id: "i" },
        examined: 10,
        max: 10,
      } as const;
      const plan = await expectNoScan(instance().target, (on) => countLeakedKeys(on, { ...scope, projects: null }));
      if (backend === "sqlite")
        expect(plan).toContain(
          "INDEX api_keys_quarantined_state (workspace_id=? AND env=? AND (quarantined_at,id)>(?,?))",
        );
    });
  });
}
