// Finding keys: by state, by words, and by the key itself; and the figures of the first page.
import { describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { memberOf, team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";
import { mistyped } from "../../../harness/mistyped.ts";

for (const backend of backends) {
  describe(`finding keys on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const at = (ms: number): string => new Date(instance.clock.now() + ms).toISOString();
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

    it("lists each state in its order, in pages, and counts the same in the overview", async () => {
      const w = await instance.workspace();
      const old = await w.mint({ name: "gone", expires_at: at(HOUR_MS) });
      await w.mint({ name: "gone later", expires_at: at(2 * HOUR_MS) });
      instance.clock.advance(3 * HOUR_MS);
      for (const [name, days] of [
        ["soon", 2],
        ["sooner", 1],
        ["far", 30],
      ] as const)
        await w.mint({ name, expires_at: at(days * DAY_MS) });
      instance.clock.advance(1);
      await w.mint({ name: "plain" });
      const revoked = await w.mint({ name: "revoked" });
      await w.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      const disabled = await w.mint({ name: "disabled", expires_at: at(DAY_MS) });
      await w.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const leaked = await w.mint({ name: "leaked", expires_at: at(3 * DAY_MS) });
      await instance.sql(`update api_keys set quarantined_at = ${instance.clock.now()} where id = '${leaked.id}'`);
      await w.mint({ name: "tested", env: "test" });
      expect(old.expires_at).toBeTruthy();
      for (const [state, expected] of [
        ["expiring", ["sooner", "soon", "leaked"]],
        ["expired", ["gone later", "gone"]],
        ["quarantined", ["leaked"]],
        ["disabled", ["disabled"]],
        ["revoked", ["revoked"]],
      ] as const) {
        expect(await names(w, `env=live&state=${state}`), state).toEqual(expected);
        expect(await names(w, `env=live&state=${state}&limit=1`), state).toEqual(expected);
      }
      expect(new Set(await names(w, "state=active&env=live"))).toEqual(
        new Set(["soon", "sooner", "far", "plain", "leaked"]),
      );
      expect(await names(w, "state=expiring&within_days=1&env=live")).toEqual(["sooner"]);
      const { body } = await w.call("sk_owner", "GET /v1/overview");
      const head = await w.call("sk_owner", "GET /v1/audit_logs?order=desc&limit=1");
      expect(body).toMatchObject({
        object: "overview",
        env: "live",
        keys: { active: 5, expiring: 3, idle: 0, quarantined: 1 },
        tenants: 1,
        projects: 1,
        nodes: { live: 0, current: 0 },
        first_verified_at: null,
        audit: { head_seq: head.body.data[0].seq, head_hash: head.body.data[0].hash },
      });
      expect((await w.call("sk_test", "GET /v1/overview")).body).toMatchObject({ env: "test", keys: { active: 1 } });
      expectRefusal(await w.call("sk_test", "GET /v1/overview?env=live"), 403, "forbidden");
      for (const wrong of ["within_days=3", "state=active&within_days=3", "cursor=x", "state=lost"])
        expectRefusal(await w.call("sk_owner", `GET /v1/keys?${wrong}`), 400, "invalid_request");
      expectRefusal(await w.call("sk_owner", `GET /v1/keys?state=active&after=${leaked.id}`), 400, "invalid_request");
    });

    it("finds a key by the start of its words, of its tenant's, by prefix and by id", async () => {
      const w = await instance.workspace();
      const tenant = await w.call("sk_owner", "POST /v1/tenants", { external_id: "acme-42", name: "Ünïcode GmbH" });
      const key = await w.mint({ name: "Build server (main)", tenant_id: tenant.body.id });
      await w.mint({ name: "Other" });
      for (const q of [
        "build",
        "SERV ma",
        "acme",
        "42 build",
        "ünï",
        "a b s m 42 ünïcode gmbh",
        key.id,
        tenant.body.id,
        key.display_prefix as string,
      ])
        expect(await names(w, `q=${encodeURIComponent(q)}`), q).toEqual(["Build server (main)"]);
      for (const q of ["uild", "build other", "build server main acme 42 other", "100%"])
        expect(await names(w, `q=${encodeURIComponent(q)}`), q).toEqual([]);
      expect(await names(w, "q=kr_live_&limit=1")).toEqual(["Other", "Build server (main)"]);
      expect(await names(w, "q=build", "sk_test")).toEqual([]);
      expectRefusal(await w.call("sk_owner", "GET /v1/keys?q=%25"), 400, "invalid_request");
      const whole = await w.call("sk_owner", `GET /v1/keys?q=${key.key}`);
      expectRefusal(whole, 400, "invalid_request");
      expect(whole.body.error.message).toBe(
        "The query contains a key. URLs are logged: send the key in the body of POST /v1/keys/lookup.",
      );
      expect(instance.logs.some((line) => line.includes(key.key))).toBe(false);
      const foreign = "the+acme_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX5d807697+of+a+customer";
      expectRefusal(await w.call("sk_owner", `GET /v1/keys?q=${foreign}`), 400, "invalid_request");
      const other = await instance.workspace();
      expect(await names(other, "q=build")).toEqual([]);
    });

    it("finds a key at once in a workspace with new keys in many projects", async () => {
      const w = await instance.workspace();
      for (let n = 0; n < 25; n++) {
        const project = await w.call("sk_owner", "POST /v1/projects", { name: "P", slug: `p-${n}` });
        await w.mint({ project_id: project.body.id, name: `spread ${n}` });
      }
      expect(await names(w, "q=spread")).toHaveLength(25);
    });

    it("says of a pasted key that it has used up a limit or a quota, charging nothing, and which nodes lack it", async () => {
      const w = await instance.workspace();
      const look = async (key: string) => {
        const { body } = await w.call("sk_owner", "POST /v1/keys/lookup", { key });
        return { ...body, reasons: (body.reasons as { code: string }[]).map(({ code }) => code) };
      };
      const limits = [{ id: "all", limit: 1, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
      const quotas = [{ id: "calls", amount: 2, refill: "none" }];
      const { id: key_id, key } = await w.mint({ rate_limits: limits, quotas });
      const free = { live: 0, current: 0, withheld: 0 };
      for (let i = 0; i < 3; i++)
        expect(await look(key)).toMatchObject({ admitted: true, code: null, reasons: [], nodes: free });
      const { project_id } = w;
      const charge = { project_id, env: "live", key_id, limits, quotas: true, cost: 1 };
      expect((await w.call("sk_owner", "POST /v1/ratelimit/check", charge)).body.allowed).toBe(true);
      expect(await look(key)).toMatchObject({ admitted: false, code: "rate_limited", reasons: ["rate_limited"] });
      instance.clock.advance(2 * 60_000);
      expect((await w.call("sk_owner", "POST /v1/ratelimit/check", charge)).body.allowed).toBe(true);
      expect((await look(key)).reasons).toEqual(["rate_limited", "quota_exceeded"]);
      instance.clock.advance(2 * 60_000);
      const old = `GET /v1/policy/delta?project_id=${project_id}&since=0&node=old`;
      expect((await w.call("sk_owner", old)).status).toBe(200);
      // The node is registered after its answer.
      await expect
        .poll(() => look(key))
        .toMatchObject({
          admitted: false,
          code: "quota_exceeded",
          reasons: ["quota_exceeded", "nodes_behind", "nodes_withheld"],
          nodes: { live: 1, withheld: 1 },
        });
    });

    it("says of a pasted key what it is and every reason why it is refused", async () => {
      const w = await instance.workspace();
      const look = async (key: string, more: object = {}, as: "sk_owner" | "sk_test" = "sk_owner") =>
        (await w.call(as, "POST /v1/keys/lookup", { key, ...more })).body;
      const codes = ({ reasons }: { reasons: { code: string }[] }): string[] => reasons.map(({ code }) => code);
      const key = await w.mint({ scopes: ["a"], expires_at: at(DAY_MS) });
      const good = await look(` ${key.key}\n`, { scopes: ["a"], project_id: w.project_id });
      expect(good).toMatchObject({
        kind: "api_key",
        env: "live",
        well_formed: true,
        found: true,
        admitted: true,
        code: null,
      });
      expect(good).toMatchObject({
        record: { id: key.id },
        project: { slug: "api" },
        tenant: { external_id: "customer" },
      });
      expect(good).toMatchObject({ reasons: [], nodes: { live: 0, current: 0 } });
      const lacking = await look(key.key, { scopes: ["b"], project_id: w.id });
      expect([codes(lacking), lacking.code]).toEqual([["other_project", "missing_scopes"], "invalid_key"]);
      instance.clock.advance(2 * DAY_MS);
      await w.call("sk_owner", `POST /v1/keys/${key.id}/revoke`, {});
      expect(codes(await look(key.key))).toEqual(["revoked", "expired"]);
      const broken = mistyped(key.key);
      expect(codes(await look(broken))).toEqual(["bad_checksum"]);
      expect(codes(await look("hello"))).toEqual(["malformed"]);
      const secret = await look(w.keys.sk_owner);
      expect(secret).toMatchObject({
        kind: "secret_key",
        found: true,
        admitted: null,
        record: { id: w.keyIds.sk_owner },
      });
      expect(codes(secret)).toEqual(["not_an_api_key"]);
      // Another workspace's key, and one that was never issued, get the same response.
      const other = await (await instance.workspace()).mint();
      const never = formatCredential("api_key", "live", new Uint8Array(24));
      const [foreign, unknown] = [await look(other.key), await look(never)];
      expect({ ...foreign, display_prefix: "" }).toEqual({ ...unknown, display_prefix: "" });
      expect([foreign.found, codes(foreign)]).toEqual([false, ["unknown"]]);
      for (const live of [key.key, never]) {
        const hidden = await look(live, {}, "sk_test");
        expect([hidden.found, codes(hidden)]).toEqual([false, ["other_environment"]]);
      }
      expect(codes(await look(w.keys.sk_owner, {}, "sk_test"))).toEqual(["not_an_api_key", "other_environment"]);
      expect(codes(await look(`krses_${"A".repeat(40)}`))).toEqual(["bad_checksum", "not_an_api_key"]);
      const texts = [key.key, broken, other.key];
      expect(texts.filter((text) => instance.logs.some((line) => line.includes(text)))).toEqual([]);
      const t = await team(instance);
      const member = await memberOf(instance, t, "member");
      expectRefusal(await instance.call(member.session, "POST /v1/keys/lookup", { key: "x" }), 403, "forbidden");
    });

    it("says of a key by its id why it is refused and what replaced it, to members too", async () => {
      const t = await team(instance);
      const member = await memberOf(instance, t, "member");
      const make = async (route: string, body: object): Promise<string> =>
        (await instance.call(t.key, route, body)).body.id;
      const project_id = await make("POST /v1/projects", { name: "Orders", slug: "orders" });
      const tenant_id = await make("POST /v1/tenants", { external_id: "globex" });
      const made = { project_id, tenant_id, env: "live", expires_at: at(DAY_MS) };
      const { id } = (await instance.call(t.owner.session, "POST /v1/keys", made)).body;
      const show = async (include: string) =>
        (await instance.call(member.session, `GET /v1/keys/${id}?include=${include}`)).body;
      const fresh = await show("successor,verdict,effective,last_used");
      const nodes = { live: 0, current: 0, withheld: 0 };
      expect(fresh).toMatchObject({ id, successor_id: null, effective: {}, last_used: null });
      expect(fresh.verdict).toEqual({ admitted: true, code: null, reasons: [], nodes });
      const rotate = () => instance.call(t.owner.session, `POST /v1/keys/${id}/rotate`, { overlap_hours: 1 });
      const [, second] = [await rotate(), (instance.clock.advance(1), await rotate())];
      expect(await show("successor")).toMatchObject({ successor_id: second.body.id });
      const end = second.body.previous_key.expires_at as string;
      instance.clock.advance(2 * HOUR_MS);
      const since = new Date(instance.clock.now()).toISOString();
      await instance.call(t.owner.session, `POST /v1/keys/${id}/revoke`, {});
      expect((await show("verdict")).verdict).toMatchObject({
        admitted: false,
        code: "invalid_key",
        reasons: [
          { code: "revoked", since },
          { code: "expired", since: end },
        ],
      });
      const plain = (await instance.call(member.session, `GET /v1/keys/${id}`)).body;
      expect(["successor_id", "verdict"].filter((name) => name in plain)).toEqual([]);
      const all = "effective,last_used,successor,verdict";
      for (const include of ["verdict,verdict", "verdict,successor,verdict", `${all},${all}`, "successor,", "moon"])
        expectRefusal(
          await instance.call(t.owner.session, `GET /v1/keys/${id}?include=${include}`),
          400,
          "invalid_request",
        );
      const foreign = await instance.workspace();
      const asked = `GET /v1/keys/${id}?include=verdict,successor`;
      for (const as of ["sk_owner", "sk_test"] as const) expectRefusal(await foreign.call(as, asked), 404, "not_found");
    });

    it("never lets test credentials use up the lookups of live ones", async () => {
      const w = await instance.workspace();
      const taken = vi.spyOn(instance.app.services.throttles, "take");
      for (const as of ["sk_owner", "sk_test"] as const) await w.call(as, "POST /v1/keys/lookup", { key: "x" });
      const cells = taken.mock.calls.filter(([{ name }]) => name === "lookup-workspace");
      taken.mockRestore();
      expect(cells.map(([{ limit }]) => limit)).toEqual([600, 150]);
      expect(new Set(cells.map(([, subject]) => subject)).size).toBe(2);
    });

    it("shows a restricted key only what is in its projects", async () => {
      const w = await instance.workspace();
      const key = await w.mint({ name: "elsewhere" });
      const own = (await w.call("sk_owner", "POST /v1/projects", { name: "P", slug: "own" })).body.id as string;
      const gone = (await w.call("sk_owner", "POST /v1/projects", { name: "G", slug: "gone" })).body.id as string;
      const body = { env: "live", permissions: ["read"], project_ids: [own, gone] };
      const restricted = (await w.call("sk_owner", "POST /v1/secret_keys", body)).body.key as string;
      for (const query of ["state=active", "q=elsewhere"])
        expect((await instance.call(restricted, `GET /v1/keys?${query}`)).body.data).toEqual([]);
      expect((await instance.call(restricted, "GET /v1/overview")).body).toMatchObject({
        keys: { active: 0 },
        projects: 2,
      });
      await w.call("sk_owner", `DELETE /v1/projects/${gone}`);
      expect((await instance.call(restricted, "GET /v1/overview")).body).toMatchObject({ projects: 1 });
      expect((await instance.call(restricted, "POST /v1/keys/lookup", { key: key.key })).body.found).toBe(false);
      const month = `'${w.id}', 600, 'live', '${String(key.tenant_id)}', '${w.project_id}', 1, ${instance.clock.now()}, ${instance.clock.now()}`;
      await instance.sql(
        `insert into usage_tenant_months (workspace_id, month, env, tenant_id, project_id, requests, first_seen_at, last_seen_at) values (${month})`,
      );
      expect((await instance.call(restricted, "GET /v1/overview")).body.first_verified_at).toBeNull();
      expect((await w.call("sk_owner", "GET /v1/overview")).body.first_verified_at).not.toBeNull();
      const { body: projects } = await instance.call(restricted, "GET /v1/projects");
      expect([projects.data.map(({ id }: Json) => id), projects.has_more]).toEqual([[own], undefined]);
      expectRefusal(await instance.call(restricted, `GET /v1/projects?after=${w.project_id}`), 400, "invalid_request");
    });
  });
}
