// How keys are walked: bounded, by environment, with deletions in progress, and from positions that a client forged.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { plansOf } from "../../../harness/databases/plans.ts";
import {
  testInstance,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { wordsOf } from "../../../src/domain/keys/words.ts";
import { KEY_STATES, walkTexts } from "../../../src/store/queries/key-search.ts";

const DAY = 86_400_000;

for (const back of backends) {
  describe(`walking keys on ${back}`, () => {
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back);
    });
    afterAll(() => r[Symbol.asyncDispose]());

    const at = (ms: number): string => new Date(r.clock.now() + ms).toISOString();
    const names = async (w: Workspace, query: string, as: "sk_owner" | "sk_test" = "sk_owner"): Promise<unknown[]> => {
      const found: unknown[] = [];
      for (let cursor = ""; ; ) {
        const { body, text } = await w.call(as, `GET /v1/keys?${query}${cursor}`);
        expect(body.data, text).toBeDefined();
        found.push(...body.data.map(({ name }: Json) => name));
        if (body.next_cursor === null) return found;
        cursor = `&cursor=${body.next_cursor}`;
      }
    };

    it("combines a search with a state, and refuses most of a key like all of it", async () => {
      const w = await r.workspace();
      const [build, other] = [await w.mint({ name: "Build one" }), await w.mint({ name: "Other" })];
      const two = await w.mint({ name: "Build two" });
      for (const key of [build, other]) await w.call("sk_owner", `POST /v1/keys/${key.id}/disable`, {});
      expect(await names(w, "q=build&state=disabled")).toEqual(["Build one"]);
      expect(await names(w, "q=build&state=active")).toEqual(["Build two"]);
      const uncounted = two.key.slice(0, -8);
      for (const q of [uncounted, `name ${uncounted}`, `acme_live_${"x".repeat(7)}`]) {
        const { status, body } = await w.call("sk_owner", `GET /v1/keys?q=${encodeURIComponent(q)}`);
        expect([status, body.error?.details[0].path], q).toEqual([400, "q"]);
      }
      expect(await names(w, `q=${two.key.slice(0, 14)}`)).toEqual(["Build two"]);
    });

    it("counts no key of a suspended tenant as active, and a key of a running deletion as revoked", async () => {
      const w = await r.workspace();
      const [suspended, deleted] = await Promise.all(
        ["late", "gone"].map(async (external_id) => {
          const { body } = await w.call("sk_owner", "POST /v1/tenants", { external_id, name: external_id });
          await w.mint({ name: external_id, tenant_id: body.id, expires_at: at(DAY) });
          return body.id as string;
        }),
      );
      await w.mint({ name: "plain" });
      const revoked = await w.mint({ name: "revoked" });
      await w.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      await w.call("sk_owner", `POST /v1/tenants/${suspended}/suspend`, {});
      const cascade = `'${deleted}', '${w.id}', 'tenant_deleted', 'tenant deleted', ${r.clock.now()}`;
      await r.sql(`insert into cascades (id, workspace_id, cause, reason, revoked_at) values (${cascade})`);
      try {
        expect(await names(w, "state=active")).toEqual(["plain"]);
        expect(await names(w, "state=expiring")).toEqual([]);
        expect(new Set(await names(w, "state=revoked&limit=1"))).toEqual(new Set(["revoked", "gone"]));
        const { body } = await w.call("sk_owner", "GET /v1/overview");
        expect(body.keys).toEqual({ active: 1, expiring: 0, quarantined: 0 });
      } finally {
        await r.sql(`delete from cascades where id = '${deleted}'`);
      }
    });

    it("examines a bounded number of keys for a page, of the caller's environment only", async () => {
      const w = await r.workspace();
      const first = await w.mint({ name: "First" });
      await w.mint({ name: "Tested", env: "test" });
      const row = (n: number): string => {
        const id = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
        const text = `'${id}', '${w.id}', '${w.project_id}', '${String(first.tenant_id)}', 'live', '${w.id}${n}', 'kr_live_aaaaaa', '[]', '{}'`;
        return `(${text}, ${r.clock.now() - 1}, ${r.clock.now() + 1 + n}, 1)`;
      };
      for (let n = 0; n < 5_500; n += 500) {
        const rows = Array.from({ length: 500 }, (_, i) => row(n + i)).join(",");
        await r.sql(
          `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, scopes, meta, expires_at, created_at, policy_version) values ${rows}`,
        );
      }
      for (const query of ["state=active&env=live", "q=first", `state=active&tenant_id=${String(first.tenant_id)}`]) {
        const page = await w.call("sk_owner", `GET /v1/keys?${query}`);
        expect([page.body.data.length, typeof page.body.next_cursor], query).toEqual([0, "string"]);
        expect(await names(w, query), query).toContain("First");
      }
      for (const query of ["state=active", "q=tested", `q=tested&tenant_id=${String(first.tenant_id)}`]) {
        const page = await w.call("sk_test", `GET /v1/keys?${query}`);
        expect([page.body.data.length, page.body.next_cursor], query).toEqual([1, null]);
      }
      expect((await w.call("sk_owner", "GET /v1/overview")).body.keys.active).toBe(1);
    });

    it("refuses forged positions of a cursor", async () => {
      const w = await r.workspace();
      for (let n = 0; n < 2; n++) await w.mint();
      const { body } = await w.call("sk_owner", "GET /v1/keys?state=active&limit=1");
      const [binding, at, id] = JSON.parse(Buffer.from(body.next_cursor, "base64url").toString()) as [
        string,
        number,
        string,
      ];
      const forge = (position: string): string =>
        Buffer.from(`[${JSON.stringify(binding)},${position}]`).toString("base64url");
      for (const position of [
        `1.5,"${id}"`,
        `1e999,"${id}"`,
        `${at},"\\u0000"`,
        `${at},"\\ud800"`,
        `"${at}","${id}"`,
      ]) {
        const answer = await w.call("sk_owner", `GET /v1/keys?state=active&cursor=${forge(position)}`);
        expect([answer.status, answer.body.error?.details[0].path], position).toEqual([400, "cursor"]);
      }
    });

    it("reads through indexes", async () => {
      const scope = { workspace_id: "w", tenant_id: "t", now: 5, until: 9, limit: 50, after: { at: 7, id: "i" } };
      for (const set of [...KEY_STATES, "unrevoked", "all"] as const)
        for (const env of ["test", undefined] as const) {
          const walk = { ...scope, set, env, isDeleting: true, byTenant: false };
          const plan = await plansOf(r.target, (on) => walkTexts(on, walk));
          expect(/SCAN (api_keys|tenants)|Seq Scan/.test(plan) ? plan : null, set).toBeNull();
          const index = { expiring: "expiry", expired: "expiry", active: "unrevoked", all: "unrevoked" }[set as string];
          // PostgreSQL chooses by the number of rows, and there are few.
          if (back === "sqlite") expect(plan, set).toContain(`api_keys_${index ?? set}_env`);
        }
      const plan = await plansOf(r.target, (on) =>
        walkTexts(on, { ...scope, set: "active", isDeleting: false, byTenant: true }),
      );
      expect(plan).toContain(back === "sqlite" ? "api_keys_tenant" : "Index");
    });
  });
}

it("makes at most 16 words of 64 characters of a text, whatever its normal form", () => {
  expect(wordsOf("Build-Server (main) ÜNÏ")).toEqual(["build", "server", "main", "ünï"]);
  expect(wordsOf("\uFDFA".repeat(200))).toHaveLength(16);
  expect(wordsOf("x".repeat(200))).toEqual(["x".repeat(64)]);
});
