// How keys are walked: bounded, by environment, with deletions in progress, and from positions that a client forged.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { plansOf } from "../../../harness/databases/plans.ts";
import { sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import type { SecretKeyActor } from "../../../src/domain/core/actor.ts";
import { countKeys } from "../../../src/domain/search/key-counts.ts";
import { wordsOf } from "../../../src/domain/search/words.ts";
import { countPiece, reachesMax, type CountedPiece } from "../../../src/store/queries/key-counts.ts";
import { KEY_STATES, walkTexts } from "../../../src/store/queries/key-search.ts";
import type { WalkPosition } from "../../../src/store/queries/page.ts";
import { countTermMatches } from "../../../src/store/queries/search-terms.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`walking keys on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const at = (ms: number): string => new Date(instance.clock.now() + ms).toISOString();
    const names = async (
      workspace: Workspace,
      query: string,
      as: "sk_owner" | "sk_test" = "sk_owner",
    ): Promise<unknown[]> => {
      const found: unknown[] = [];
      for (let cursor = ""; ; ) {
        const { body, text } = await workspace.call(as, `GET /v1/keys?${query}${cursor}`);
        expect(body.data, text).toBeDefined();
        found.push(...body.data.map(({ name }: Json) => name));
        if (body.next_cursor === null) return found;
        cursor = `&cursor=${body.next_cursor}`;
      }
    };

    it("combines a search with a state, and refuses most of a key like all of it", async () => {
      const workspace = await instance.workspace();
      const [build, other] = [await workspace.mint({ name: "Build one" }), await workspace.mint({ name: "Other" })];
      const two = await workspace.mint({ name: "Build two" });
      for (const key of [build, other]) await workspace.call("sk_owner", `POST /v1/keys/${key.id}/disable`, {});
      expect(await names(workspace, "q=build&state=disabled")).toEqual(["Build one"]);
      expect(await names(workspace, "q=build&state=active")).toEqual(["Build two"]);
      const uncounted = two.key.slice(0, -8);
      for (const q of [uncounted, `name ${uncounted}`, `acme_live_${"x".repeat(7)}`]) {
        const { status, body } = await workspace.call("sk_owner", `GET /v1/keys?q=${encodeURIComponent(q)}`);
        expect([status, body.error?.details[0].path], q).toEqual([400, "q"]);
      }
      expect(await names(workspace, `q=${two.key.slice(0, 14)}`)).toEqual(["Build two"]);
    });

    it("sorts keys by their expiry, revoked ones among them if they are included", async () => {
      const workspace = await instance.workspace();
      for (const [name, days, env] of [
        ["third", 3, "live"],
        ["first", 1, "test"],
        ["second", 2, "live"],
        ["fourth", 4, "live"],
      ] as const) {
        const { id } = await workspace.mint({ name, env, expires_at: at(days * DAY_MS) });
        if (name !== "third") await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, {});
      }
      await workspace.mint({ name: "never" });
      const all = ["first", "second", "third", "fourth"];
      for (const limit of ["", "&limit=1", "&limit=3"]) {
        expect(await names(workspace, `sort=expires_at&include_revoked=true${limit}`)).toEqual(all);
        expect(await names(workspace, `sort=expires_at&include_revoked=true&env=live${limit}`)).toEqual(all.slice(1));
        expect(await names(workspace, `sort=expires_at${limit}`)).toEqual(["third"]);
      }
      expect(await names(workspace, "sort=expires_at&include_revoked=true", "sk_test")).toEqual(["first"]);
    });

    it("counts no key of a suspended tenant as active, and a key of a running deletion as revoked", async () => {
      const workspace = await instance.workspace();
      const [suspended, deleted] = await Promise.all(
        ["late", "gone"].map(async (external_id) => {
          const { body } = await workspace.call("sk_owner", "POST /v1/tenants", { external_id, name: external_id });
          await workspace.mint({ name: external_id, tenant_id: body.id, expires_at: at(DAY_MS) });
          return body.id as string;
        }),
      );
      await workspace.mint({ name: "plain" });
      const revoked = await workspace.mint({ name: "revoked" });
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      await workspace.call("sk_owner", `POST /v1/tenants/${suspended}/suspend`, {});
      const cascade = `'${deleted}', '${workspace.id}', 'tenant_deleted', 'tenant deleted', ${instance.clock.now()}`;
      await instance.sql(`insert into cascades (id, workspace_id, cause, reason, revoked_at) values (${cascade})`);
      try {
        expect(await names(workspace, "state=active")).toEqual(["plain"]);
        expect(await names(workspace, "state=expiring")).toEqual([]);
        expect(new Set(await names(workspace, "state=revoked&limit=1"))).toEqual(new Set(["revoked", "gone"]));
        const { body } = await workspace.call("sk_owner", "GET /v1/overview");
        expect(body.keys).toEqual({ active: 1, expiring: 0, idle: 0, quarantined: 0 });
      } finally {
        await instance.sql(`delete from cascades where id = '${deleted}'`);
      }
    });

    it("examines a bounded number of keys for a page, of the caller's environment only", async () => {
      const workspace = await instance.workspace();
      const first = await workspace.mint({ name: "First" });
      await workspace.mint({ name: "Tested", env: "test" });
      expect(await names(workspace, "q=first")).toEqual(["First"]); // what is inserted below is not indexed
      const row = (n: number): string => {
        const id = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
        const text = `'${id}', '${workspace.id}', '${workspace.project_id}', '${String(first.tenant_id)}', 'live', '${workspace.id}${n}', 'kr_live_aaaaaa', '[]', '{}'`;
        return `(${text}, ${instance.clock.now() - 1}, ${instance.clock.now() + 1 + n}, 1)`;
      };
      for (let n = 0; n < 5_500; n += 500) {
        const rows = Array.from({ length: 500 }, (_, i) => row(n + i)).join(",");
        await instance.sql(
          `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, scopes, meta, expires_at, created_at, policy_version) values ${rows}`,
        );
      }
      for (const query of ["state=active&env=live", `state=active&tenant_id=${String(first.tenant_id)}`]) {
        const page = await workspace.call("sk_owner", `GET /v1/keys?${query}`);
        expect([page.body.data.length, typeof page.body.next_cursor], query).toEqual([0, "string"]);
        expect(await names(workspace, query), query).toContain("First");
      }
      for (const query of ["state=active", "q=tested", `q=tested&tenant_id=${String(first.tenant_id)}`]) {
        const page = await workspace.call("sk_test", `GET /v1/keys?${query}`);
        expect([page.body.data.length, page.body.next_cursor], query).toEqual([1, null]);
      }
      expect((await workspace.call("sk_owner", "GET /v1/overview")).body.keys.active).toBe(1);
      const stranger = await instance.workspace();
      const foreign = await stranger.call("sk_owner", `GET /v1/keys?state=active&tenant_id=${String(first.tenant_id)}`);
      expect(foreign.body).toEqual({ object: "list", data: [], next_cursor: null });
      const bulk = { action: "revoke", filter: { scope: "none" }, dry_run: true };
      const tested = (await workspace.call("sk_test", "POST /v1/bulk/keys", bulk)).body;
      expect([tested.data, tested.next_cursor]).toEqual([[], null]);
      // The first rows of the index are all expired: what is behind them counts too.
      const actor = { kind: "secret_key", workspace_id: workspace.id, env: "live" } as unknown as SecretKeyActor;
      const count = (max: number) => countKeys({ services: instance.app.services, actor }, "live", max, max);
      expect([(await count(500)).active, (await count(20_000)).active]).toEqual([1, 1]);
    });

    it("counts in pieces the keys that the lists of their states show", async () => {
      const workspace = await instance.workspace();
      for (let n = 0; n < 7; n++) {
        // Two with one expiry, so that a piece ends between them.
        const { id } = await workspace.mint({ expires_at: at((1 + (n >> 1)) * DAY_MS) });
        const end = { 2: "disable", 4: "revoke" }[n];
        if (end) await workspace.call("sk_owner", `POST /v1/keys/${id}/${end}`, {});
        if (n > 4) await instance.sql(`update api_keys set quarantined_at = ${n} where id = '${id}'`);
      }
      await workspace.mint();
      const now = instance.clock.now();
      const { read } = instance.app.services.store;
      const range = { now, until: now + 7 * DAY_MS, usedBefore: now + 1, projects: null, isDeleting: false };
      const scope = { ...range, workspace_id: workspace.id, env: "live", hasSuspended: false } as const;
      for (const state of ["active", "expiring", "idle", "quarantined"] as const) {
        let count = 0;
        const piece = { ...scope, state, after: null, examined: 2, max: 10 };
        for (let after: WalkPosition | null | undefined = null; after !== undefined; ) {
          const counted: CountedPiece = await countPiece(read, { ...piece, after });
          count += counted.n;
          after = counted.end;
        }
        const expected = { active: 6, expiring: 5, idle: 6, quarantined: 2 }[state];
        expect(count, state).toBe(expected);
        expect(await countPiece(read, { ...piece, examined: 10, max: 2 }), state).toEqual({ n: 2, end: undefined });
        const reaches = (max: number, examined = 10) => reachesMax(read, { ...piece, examined, max });
        const reached = [await reaches(expected), await reaches(expected + 1), await reaches(2, 1)];
        expect(reached, state).toEqual([true, false, false]);
        if (state !== "idle") expect(await names(workspace, `state=${state}`), state).toHaveLength(expected);
      }
    });

    it("counts keys behind any number of others, by index ranges", async () => {
      const workspace = await instance.workspace();
      const [suspended, other] = await Promise.all(
        ["suspended", "other"].map(async (external_id) =>
          String((await workspace.call("sk_owner", "POST /v1/tenants", { external_id })).body.id),
        ),
      );
      for (const tenant_id of [other, other, workspace.tenant_id, suspended]) await workspace.mint({ tenant_id });
      await workspace.mint({ env: "test" });
      // Newer ones, more than the server's own thread counts: expired, disabled, of a suspended tenant, some two of
      // it.
      const newer = backend === "sqlite" ? 22_500 : 1_500;
      const now = instance.clock.now();
      const row = (n: number): string => {
        const id = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
        const state = n % 3 === 0 ? `${now - 1}, null` : n % 3 === 1 ? `null, ${now}` : "null, null";
        const both = n % 7 === 0 ? `${now - 1}, ${now}` : state;
        const tenant = n % 3 === 2 || n % 5 === 0 ? suspended : other;
        const text = `'${workspace.id.slice(0, 8)}${id.slice(8)}', '${workspace.id}', '${workspace.project_id}', '${tenant}', 'live', '${workspace.id}${n}'`;
        return `(${text}, 'kr_live_aaaaaa', '[]', '{}', ${both}, ${now + 1 + n}, 1)`;
      };
      for (let n = 0; n < newer; n += 500) {
        const rows = Array.from({ length: 500 }, (_, i) => row(n + i)).join(",");
        await instance.sql(
          `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, scopes, meta, expires_at, disabled_at, created_at, policy_version) values ${rows}`,
        );
      }
      await workspace.call("sk_owner", `POST /v1/tenants/${suspended}/suspend`, {});
      expect((await workspace.call("sk_owner", "GET /v1/overview")).body.keys.active).toBe(3);
      expect((await workspace.call("sk_test", "GET /v1/overview")).body.keys.active).toBe(1);
      const range = { now, until: now + DAY_MS, usedBefore: now, after: null, examined: 10, max: 10 };
      const cell = { ...range, workspace_id: workspace.id, env: "live", projects: null, isDeleting: false } as const;
      for (const state of ["active", "expiring", "idle", "quarantined"] as const) {
        for (const hasSuspended of [true, false]) {
          const piece = { ...cell, state, hasSuspended };
          const plan = await plansOf(instance.target, (on) => countPiece(on, piece));
          expect(/SCAN (api_keys|tenants)|Seq Scan|TEMP B-TREE/.test(plan) ? plan : null, state).toBeNull();
          if (backend === "sqlite")
            expect(plan).toMatch(/INDEX api_keys_(unrevoked_env|expiry_state|quarantined_state)/);
        }
      }
    });

    it("refuses a cursor of which a byte was changed", async () => {
      const workspace = await instance.workspace();
      for (let n = 0; n < 2; n++) await workspace.mint();
      const { body } = await workspace.call("sk_owner", "GET /v1/keys?state=active&limit=1");
      const cursor = Buffer.from(body.next_cursor as string, "base64url");
      for (const at of [0, cursor.length >> 1, cursor.length - 1]) {
        const forged = cursor.map((byte, i) => (i === at ? byte ^ 1 : byte));
        const text = Buffer.from(forged).toString("base64url");
        const answer = await workspace.call("sk_owner", `GET /v1/keys?state=active&cursor=${text}`);
        expect([answer.status, answer.body.error?.details[0].path], String(at)).toEqual([400, "cursor"]);
      }
    });

    it("searches by the word with the fewest matches, and by the same one on every page of a list", async () => {
      const workspace = await instance.workspace();
      for (const name of ["service 4711 a", "service 4711 b"]) {
        instance.clock.advance(1);
        await workspace.mint({ name });
      }
      /** Newer than the keys, so that a search by this word examines them first. */
      const addTerms = (term: string, rows: number) =>
        instance.sql(`insert into search_terms (workspace_id, kind, term, newest, id) with recursive n(i) as
          (select 1 union all select i + 1 from n where i < ${rows})
          select '${workspace.id}', 'live.word', '${term}', -9000000000000000, '${term}' || i from n`);
      await addTerms("service", 6_000);
      const first = (await workspace.call("sk_owner", "GET /v1/keys?q=service+4711&limit=1")).body;
      expect(first.data.map(({ name }: Json) => name)).toEqual(["service 4711 b"]);
      await addTerms("4711", 7_000);
      const more = `GET /v1/keys?q=service+4711&cursor=${first.next_cursor}`;
      const second = (await workspace.call("sk_owner", more)).body as { data: Json[]; next_cursor: string | null };
      expect([second.data.map(({ name }) => name), second.next_cursor]).toEqual([["service 4711 a"], null]);
    });

    it("leads a search with a rare name, not with a tenant of many keys", async () => {
      const workspace = await instance.workspace();
      const tenant_id = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "globex" })).body
        .id as string;
      const { id } = await workspace.mint({ name: "prod", tenant_id });
      await workspace.call("sk_owner", "GET /v1/keys?q=prod"); // indexes it, and so everything with a smaller id
      const [row = {}] = await instance.sql(`select * from api_keys where id = '${id}'`);
      const copied: Record<string, string> = {
        id: "'00' || i || id",
        lookup_hash: "lookup_hash || i",
        name: "null",
        created_at: "created_at + i",
      };
      const columns = Object.keys(row);
      await instance.sql(`insert into api_keys (${columns.join()}) with recursive n(i) as
        (select 1 union all select i + 1 from n where i < 6000)
        select ${columns.map((name) => copied[name] ?? name).join()} from api_keys, n where id = '${id}'`);
      const { data } = (await workspace.call("sk_owner", "GET /v1/keys?q=globex+prod")).body as { data: Json[] };
      expect(data.map(({ name }) => name)).toEqual(["prod"]);
    });

    it("reads through indexes", async () => {
      const scope = { workspace_id: "w", tenant_id: "t", now: 5, until: 9, limit: 50, after: { at: 7, id: "i" } };
      for (const set of [...KEY_STATES, "unrevoked", "allDated", "all"] as const)
        for (const env of ["test", undefined] as const) {
          const walk = { ...scope, set, env, isDeleting: true, byTenant: false };
          const plan = await plansOf(instance.target, (on) => walkTexts(on, walk));
          expect(/SCAN (api_keys|tenants)|Seq Scan/.test(plan) ? plan : null, set).toBeNull();
          const index = {
            expiring: "expiry_state",
            expired: "expiry_state",
            quarantined: "quarantined_state",
            allDated: "revoked_expiry_env",
            active: "unrevoked_env",
            idle: "unrevoked_env",
            all: "unrevoked_env",
          }[set as string];
          // PostgreSQL chooses by the number of rows, and there are few.
          if (backend === "sqlite") expect(plan, set).toContain(`api_keys_${index ?? `${set}_env`}`);
        }
      const plan = await plansOf(instance.target, (on) =>
        walkTexts(on, { ...scope, set: "active", isDeleting: false, byTenant: true }),
      );
      expect(plan).toContain(backend === "sqlite" ? "api_keys_tenant" : "Index");
      const range = { workspace_id: "w", kinds: ["live.word"], tenantKind: "tenant.word", from: "a", below: "b" };
      const counted = await plansOf(instance.target, (on) => countTermMatches(on, range, 50));
      expect(/SCAN (api_keys|search_terms)|Seq Scan/.test(counted) ? counted : null).toBeNull();
      // The keys of tenants are counted in the index alone: there may be 5,000, anywhere in a large table.
      if (backend === "sqlite") expect(counted).toContain("COVERING INDEX api_keys_tenant");
    });
  });
}

it("makes at most 16 words of 64 characters of a text, whatever its normal form", () => {
  expect(wordsOf("Build-Server (main) ÜNÏ")).toEqual(["build", "server", "main", "ünï"]);
  expect(wordsOf("\uFDFA".repeat(200))).toHaveLength(16);
  expect(wordsOf("x".repeat(200))).toEqual(["x".repeat(64)]);
});
