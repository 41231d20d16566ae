// The search index: what is found, in which order, and that it survives whatever happens to the index.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { SECOND_MS } from "../../../src/kernel/durations.ts";
import { record } from "../../../src/domain/core/record.ts";
import { indexChanges } from "../../../src/domain/search/search-index.ts";
import { saveProgress } from "../../../src/store/queries/search-terms.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

for (const backend of runBackends) {
  describe(`the search index on ${backend}`, () => {
    const instance = sharedInstance(backend, { leads: false }); // searches and tests do the work of its job

    type As = "sk_owner" | "sk_test";
    const pagesOf = async (workspace: Workspace, path: string, as: As): Promise<Json[]> => {
      const found: Json[] = [];
      for (let cursor = ""; ; ) {
        const { body, text } = await workspace.call(as, `GET /v1/${path}${cursor}`);
        expect(body.data, text).toBeDefined();
        found.push(...body.data);
        if (body.next_cursor === null) return found;
        cursor = `&cursor=${body.next_cursor}`;
      }
    };
    /** The same in one page and in many. */
    const names = async (workspace: Workspace, query: string, as: As = "sk_owner"): Promise<unknown[]> => {
      const whole = (await pagesOf(workspace, `keys?${query}`, as)).map(({ name }) => name);
      expect((await pagesOf(workspace, `keys?${query}&limit=1`, as)).map(({ name }) => name)).toEqual(whole);
      return whole;
    };
    const tenant = async (workspace: Workspace, external_id: string, name?: string): Promise<string> =>
      (await workspace.call("sk_owner", "POST /v1/tenants", { external_id, name })).body.id as string;
    const mint = async (workspace: Workspace, name: string | undefined, more: Json = {}) => {
      instance.clock.advance(1);
      return workspace.mint({ ...(name !== undefined && { name }), ...more });
    };

    it("lists keys by their own words first, then by their tenant's, each once and newest first", async () => {
      const workspace = await instance.workspace();
      const acme = await tenant(workspace, "prod-7", "Production Ltd");
      await mint(workspace, "tenant only", { tenant_id: acme });
      await mint(workspace, "production", {});
      await mint(workspace, "prod production", { tenant_id: acme });
      await mint(workspace, "prod new");
      await mint(workspace, "tenant newer", { tenant_id: acme });
      await mint(workspace, "prod tested", { env: "test" });
      const live = ["prod new", "prod production", "production", "tenant newer", "tenant only"];
      expect(await names(workspace, "q=PROD&env=live")).toEqual(live);
      expect(await names(workspace, "q=prod")).toEqual(["prod tested", ...live]);
      expect(await names(workspace, "q=ltd+newer")).toEqual(["tenant newer"]);
      expect(await names(workspace, "q=prod", "sk_test")).toEqual(["prod tested"]);
      expect(await names(workspace, "q=prod&scope=x")).toEqual([]);
    });

    it("finds only keys of the tenant that the list is filtered by, whichever tenants' words match", async () => {
      const workspace = await instance.workspace();
      const ids: Record<string, string> = {};
      for (const external_id of ["acme-one", "acme-two", "other"]) {
        const id = (ids[external_id] = await tenant(workspace, external_id));
        for (const word of ["former", "latter"]) await mint(workspace, `${word} key`, { tenant_id: id });
      }
      await mint(workspace, "acme named", { tenant_id: ids["other"] });
      const found = (of: string, more = "") => names(workspace, `tenant_id=${ids[of]}&q=acme${more}`);
      expect(await found("acme-one")).toEqual(["latter key", "former key"]);
      expect(await found("acme-two", "+former&state=active&env=live")).toEqual(["former key"]);
      expect(await found("other")).toEqual(["acme named"]);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${ids["acme-one"]}`);
      const all = await names(workspace, "q=one&include_revoked=true");
      expect(await found("acme-one", "&include_revoked=true")).toEqual(all);
    });

    it("finds a key by the start of its display prefix, whatever its characters are", async () => {
      const workspace = await instance.workspace();
      for (const [name, six] of [
        ["letters", "abCDef"],
        ["dash first", "-bC_ef"],
        ["dash inside", "aB-Def"],
      ] as const) {
        const { id } = await mint(workspace, name);
        await instance.sql(`update api_keys set display_prefix = 'kr_live_${six}' where id = '${id}'`);
      }
      await instance.sql("delete from search_progress"); // a job may have indexed them before
      for (const [text, found] of [
        ["abCDef", ["letters"]],
        ["aB", ["dash inside"]],
        ["aB-D", ["dash inside"]],
        ["-b", ["dash first"]],
        ["-", ["dash first"]],
        ["ABC", []],
      ] as const)
        expect(await names(workspace, `q=kr_live_${text}`), text).toEqual(found);
    });

    it("finds a key at once, and not by its old name or scope", async () => {
      const workspace = await instance.workspace();
      const key = await mint(workspace, "First name", { scopes: ["a:read"] });
      expect(await names(workspace, "q=first")).toEqual(["First name"]);
      expect(await names(workspace, "scope=a:read")).toEqual(["First name"]);
      await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { name: "Second", scopes: ["a"] });
      expect(await names(workspace, "q=second")).toEqual(["Second"]);
      for (const query of ["q=first", "scope=a:read", "scope=A"])
        expect(await names(workspace, query), query).toEqual([]);
      expect(await names(workspace, "scope=a")).toEqual(["Second"]);
      const stale = `select count(*) as n from search_terms where workspace_id = '${workspace.id}' and term in ('first', 'a:read')`;
      expect(await instance.sql(stale)).toEqual([{ n: 0 }]);
      await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke`, {});
      expect(await names(workspace, "q=second")).toEqual([]);
      expect(await names(workspace, "q=second&include_revoked=true")).toEqual(["Second"]);
      expect(await names(workspace, "q=second&state=revoked")).toEqual(["Second"]);
    });

    it("continues behind the longest words, names and scopes, with cursors that show nothing of them", async () => {
      const workspace = await instance.workspace();
      const scopes = ["\u{20000}".repeat(200)];
      const long = ["\u{20000}".repeat(199), "\u{20000}".repeat(198), `${"\u8a9e".repeat(63)} ${"\u8a9e".repeat(100)}`];
      for (const name of long) await mint(workspace, name, { scopes });
      const query = encodeURIComponent;
      expect(await names(workspace, `q=${query("\u{20000}".repeat(64))}`)).toEqual([long[1], long[0]]);
      expect(await names(workspace, `scope=${query(String(scopes))}`)).toEqual(long.toReversed());
      expect(new Set(await names(workspace, "sort=name"))).toEqual(new Set(long));
      const { body } = await workspace.call("sk_owner", "GET /v1/keys?sort=name&limit=1");
      const cursor = Buffer.from(body.next_cursor as string, "base64url");
      for (const text of [body.data[0].id as string, "\u8a9e"]) expect(cursor.includes(text), text).toBe(false);
    });

    it("sorts by name, expiry and last use, and lists keys that are not used", async () => {
      const workspace = await instance.workspace();
      const at = (ms: number): string => new Date(instance.clock.now() + ms).toISOString();
      const used = await mint(workspace, "béta", { expires_at: at(90 * DAY) });
      await mint(workspace, "Alpha 2", { expires_at: at(80 * DAY), scopes: ["s"] });
      await mint(workspace, undefined);
      instance.clock.advance(40 * DAY);
      await mint(workspace, "alpha 1");
      const event = telemetryEvent({ ts: at(0), request_id: "u", project_id: workspace.project_id, key_id: used.id });
      const send = (own: Json) =>
        workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([{ ...event, ...own }]));
      expect(await names(workspace, "state=idle")).toEqual(expect.arrayContaining(["béta", "Alpha 2", null]));
      await send({});
      expect(await names(workspace, "sort=name")).toEqual(["alpha 1", "Alpha 2", "béta"]);
      expect(await names(workspace, "sort=name&scope=s")).toEqual(["Alpha 2"]);
      expect(await names(workspace, "sort=expires_at")).toEqual(["Alpha 2", "béta"]);
      expect(new Set((await names(workspace, "sort=last_used_at")).slice(0, 2))).toEqual(new Set(["alpha 1", "béta"]));
      expect((await names(workspace, "sort=created_at"))[0]).toBe("alpha 1");
      for (const query of ["state=idle", "unused_days=30"])
        expect(new Set(await names(workspace, query)), query).toEqual(new Set(["Alpha 2", null]));
      expect(await names(workspace, "unused_days=30&scope=s")).toEqual(["Alpha 2"]);
      expect(await names(workspace, "state=idle&unused_days=41")).toEqual([]);
      // A node whose clock is late reports a use of before the key was created.
      const fresh = await mint(workspace, "fresh", { scopes: ["s"] });
      await send({ ts: at(-2 * DAY), request_id: "late", key_id: fresh.id });
      for (const query of [
        "state=idle&unused_days=1",
        "unused_days=1",
        "unused_days=1&scope=s",
        "unused_days=1&q=fresh",
      ])
        expect(await names(workspace, query), query).not.toContain("fresh");
      await workspace.call("sk_owner", `POST /v1/keys/${fresh.id}/revoke`, {});
      instance.clock.advance(35 * DAY);
      const idle = await names(workspace, "state=idle");
      expect(new Set(idle.slice(0, 2))).toEqual(new Set(["Alpha 2", null]));
      expect(new Set(idle.slice(2))).toEqual(new Set(["alpha 1", "béta"]));
      await send({ ts: at(0), request_id: "v" });
      expect(await names(workspace, "state=idle")).not.toContain("béta");
      const days = `select count(*) as n from search_terms where id = '${used.id}' and kind = 'live.used'`;
      expect(await instance.sql(days)).toEqual([{ n: 1 }]);
      for (const [query, path] of [
        ["sort=name&q=x", "sort"],
        ["sort=name&state=active", "sort"],
        [`sort=name&after=${used.id}`, "after"],
        ["unused_days=0", "unused_days"],
      ] as const)
        expect((await workspace.call("sk_owner", `GET /v1/keys?${query}`)).body.error?.details[0].path, query).toBe(
          path,
        );
    });

    it("finds tenants by words, id, plan and state", async () => {
      const workspace = await instance.workspace();
      const plan = (await workspace.call("sk_owner", "POST /v1/plans", { name: "Pro", slug: "pro" })).body.id as string;
      const acme = await tenant(workspace, "acme-1", "Acme Europe");
      instance.clock.advance(1);
      const other = await tenant(workspace, "acme-2", "Acme Asia");
      await workspace.call("sk_owner", `PATCH /v1/tenants/${other}`, { plan_id: plan });
      const found = async (query: string): Promise<unknown[]> => {
        const whole = (await pagesOf(workspace, `tenants?${query}`, "sk_owner")).map(({ id }) => id);
        expect((await pagesOf(workspace, `tenants?${query}&limit=1`, "sk_owner")).map(({ id }) => id)).toEqual(whole);
        return whole;
      };
      expect(await found("q=acme")).toEqual([other, acme]);
      expect(await found("q=euro+acm")).toEqual([acme]);
      expect(await found(`q=${acme}`)).toEqual([acme]);
      expect(await found(`plan_id=${plan}`)).toEqual([other]);
      expect(await found(`q=acme&plan_id=${plan}`)).toEqual([other]);
      expect(await found("state=suspended")).toEqual([]);
      await workspace.call("sk_owner", `POST /v1/tenants/${acme}/suspend`, {});
      expect(await found("state=suspended")).toEqual([acme]);
      expect(await found("q=acme&state=suspended")).toEqual([acme]);
      expect(await found("q=acme&state=active")).toEqual([other]);
      expect(await found("state=active")).toContain(other);
      expect(await found("state=active")).not.toContain(acme);
      await workspace.call("sk_owner", `PATCH /v1/tenants/${acme}`, { name: "Renamed" });
      expect(await found("q=europe")).toEqual([]);
      expect(await found("q=renamed")).toEqual([acme]);
      await workspace.call("sk_owner", `DELETE /v1/tenants/${other}`);
      expect(await found("q=acme")).toEqual([acme]);
      expectRefusal(await workspace.call("sk_owner", `GET /v1/tenants?q=x&after=${acme}`), 400, "invalid_request");
    });

    it("ends with its credential while it waits for the index", async () => {
      const workspace = await instance.workspace();
      await mint(workspace, "Late");
      const { body } = await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live" });
      expect((await instance.call(body.key, "GET /v1/keys")).status).toBe(200); // its first use is written
      const { store } = instance.app.services;
      const write = store.write.bind(store);
      let isRevoked = false;
      const spy = vi.spyOn(store, "write").mockImplementation(async (job) => {
        const isSearch = job.owner !== undefined && !isRevoked; // jobs have no owner
        isRevoked ||= isSearch;
        if (isSearch) await workspace.call("sk_owner", `POST /v1/secret_keys/${body.id}/revoke`, {});
        return write(job);
      });
      expectRefusal(await instance.call(body.key, "GET /v1/keys?q=late"), 401, "invalid_key");
      spy.mockRestore();
      expect(await names(workspace, "q=late")).toEqual(["Late"]);
    });

    it("indexes what an upgrade or a crash has left, and says so while much is missing", async () => {
      const workspace = await instance.workspace();
      const key = await mint(workspace, "Kept", { scopes: ["s"] });
      expect(await names(workspace, "q=kept")).toEqual(["Kept"]);
      for (const table of ["search_terms", "search_progress"]) await instance.sql(`delete from ${table}`);
      expect(await names(workspace, "q=kept")).toEqual(["Kept"]);
      expect(await names(workspace, "q=customer")).toEqual(["Kept"]);
      await instance.sql("delete from search_progress");
      await indexChanges(instance.app.services);
      const row = (n: number): string => {
        const id = `0000000${backend === "sqlite" ? 1 : 2}-0000-4000-8000-${String(n).padStart(12, "0")}`;
        const text = `'${id}', '${workspace.id}', '${workspace.project_id}', '${String(key.tenant_id)}', 'live', '${workspace.id}s${n}', 'kr_live_aaaaaa', 'Many ${n}', '[]', '{}'`;
        return `(${text}, ${instance.clock.now()}, 1000000)`;
      };
      for (let n = 0; n < 2_500; n += 500)
        await instance.sql(
          `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, name, scopes, meta, created_at, policy_version) values ${Array.from({ length: 500 }, (_, i) => row(n + i)).join(",")}`,
        );
      await instance.sql(`update projects set policy_version = 1000000 where id = '${workspace.project_id}'`);
      const { store } = instance.app.services;
      const write = store.write.bind(store);
      const slow = vi.spyOn(store, "write").mockImplementation((job) => {
        instance.clock.advance(SECOND_MS);
        return write(job);
      });
      const refused = await workspace.call("sk_owner", "GET /v1/keys?q=many");
      expectRefusal(refused, 503, "unavailable");
      expect(await names(workspace, `q=${key.id}`)).toEqual(["Kept"]);
      slow.mockRestore();
      expect(refused.body.error.message).toBe("The search index is being built. Try again shortly.");
      expect(refused.headers.get("retry-after")).toBeTruthy();
      const owners: unknown[] = [];
      const watched = vi.spyOn(store, "write").mockImplementation((job) => {
        owners.push(job.owner);
        instance.clock.jump(SECOND_MS);
        return write(job);
      });
      const search = () => workspace.call("sk_owner", "GET /v1/keys?q=many+2499");
      const pages = await Promise.all([search(), search()]); // no more run at once for a workspace
      watched.mockRestore();
      for (const page of pages)
        expect(
          page.body.data?.map(({ name }: Json) => name),
          page.text,
        ).toEqual(["Many 2499"]);
      const steps = owners.filter((owner) => owner !== undefined);
      expect(steps.length).toBeGreaterThan(5);
      expect(steps.length).toBeLessThan(30); // one pass for both
      const progress = () =>
        instance.sql(`select version, last_id from search_progress where id = '${workspace.project_id}/live'`);
      const before = await progress();
      await record(instance.app.services, (tx) =>
        saveProgress.run(tx, { id: `${workspace.project_id}/live`, version: 5, last_id: "a" }),
      );
      expect(await progress()).toEqual(before);
    });
  });
}
