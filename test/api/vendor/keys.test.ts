// API keys over HTTP, on every database.
import { describe, expect, it } from "vitest";
import { parseCredential } from "../../../src/kernel/credentials.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { KEY_FIELDS } from "../../../harness/instances/fields.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { sha256Hex } from "../../../src/platform/crypto.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";
const limit = { id: "per-minute", limit: 10, window_ms: 60_000, algorithm: "sliding", scope: "key" };

for (const backend of runBackends) {
  describe(`keys on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    const want = (more: object = {}) => ({
      project_id: workspace.project_id,
      tenant_id: workspace.tenant_id,
      env: "live",
      ...more,
    });
    const fresh = async (): Promise<Workspace> => (workspace = await instance.workspace());

    it("shows a new key once, with the contract's fields, and stores only its hash", async () => {
      await fresh();
      const body = { name: "n", scopes: ["a", "a"], meta: { x: [1, null] }, rate_limits: [limit] };
      const reply = await workspace.call("sk_owner", "POST /v1/keys", want(body));
      expect(reply.status).toBe(201);
      expect(Object.keys(reply.body)).toEqual([...KEY_FIELDS, "key", "key_shown_once"]);
      expect(reply.body).toMatchObject({ object: "api_key", ...body, key_shown_once: true, expires_at: null });
      const { key, id, display_prefix } = reply.body;
      expect(parseCredential(key)).toMatchObject({ kind: "api_key", env: "live", displayPrefix: display_prefix });
      const shown = await workspace.call("sk_owner", `GET /v1/keys/${id}`);
      expect(Object.keys(shown.body)).toEqual(KEY_FIELDS);
      const [row] = await instance.sql(`select * from api_keys where id = '${id}'`);
      expect(row?.lookup_hash).toBe(sha256Hex(key));
      expect(JSON.stringify(row)).not.toContain(key);
      expect(await workspace.actions()).toEqual(["api_key.created"]);
    });

    for (const [why, as, body, status, code, ...paths] of [
      ["no credential", null, {}, 401, "unauthenticated"],
      ["the bootstrap token", "bootstrap", {}, 401, "unauthenticated"],
      ["a test key asking for live", "sk_test", {}, 403, "forbidden"],
      ["an unknown field", "sk_owner", { admin: true }, 400, "invalid_request", "admin"],
      ["a missing tenant", "sk_owner", { tenant_id: undefined }, 400, "invalid_request", "tenant_id"],
      ["another env", "sk_owner", { env: "prod" }, 400, "invalid_request", "env"],
      ["a project of nobody", "sk_owner", { project_id: NOWHERE }, 404, "not_found"],
      ["a tenant of nobody", "sk_owner", { tenant_id: NOWHERE }, 404, "not_found"],
      ["an id that is none", "sk_owner", { project_id: "7" }, 400, "invalid_request", "project_id"],
      [
        "an expiry in the past",
        "sk_owner",
        { expires_at: "2020-01-01T00:00:00Z" },
        400,
        "invalid_request",
        "expires_at",
      ],
      ["a date that is none", "sk_owner", { expires_at: "2027-02-30T00:00Z" }, 400, "invalid_request", "expires_at"],
      ["65 scopes", "sk_owner", { scopes: Array(65).fill("s") }, 400, "invalid_request", "scopes"],
      ["an empty scope", "sk_owner", { scopes: ["a", ""] }, 400, "invalid_request", "scopes[1]"],
      ["a name of 201", "sk_owner", { name: "x".repeat(201) }, 400, "invalid_request", "name"],
      ["a NUL in a name", "sk_owner", { name: "a\u0000b" }, 400, "invalid_request", "name"],
      ["twin rate limits", "sk_owner", { rate_limits: [limit, limit] }, 400, "invalid_request", "rate_limits"],
      [
        "a limit of 0",
        "sk_owner",
        { rate_limits: [{ ...limit, limit: 0 }] },
        400,
        "invalid_request",
        "rate_limits[0].limit",
      ],
      [
        "nine rules",
        "sk_owner",
        { rate_limits: Array.from({ length: 9 }, (_, i) => ({ ...limit, id: `r${i}` })) },
        400,
        "invalid_request",
        "rate_limits",
      ],
      ["meta of 17 KiB", "sk_owner", { meta: { a: "x".repeat(17_000) } }, 400, "invalid_request", "meta"],
      [
        "meta of nine levels",
        "sk_owner",
        { meta: { a: { b: { c: { d: { e: { f: { g: { h: {} } } } } } } } } },
        400,
        "invalid_request",
        "meta",
      ],
    ] as const) {
      it(`rejects ${why} and writes nothing`, async () => {
        await fresh();
        expectRefusal(await workspace.call(as, "POST /v1/keys", want(body)), status, code, ...paths);
        expect(await workspace.actions()).toEqual([]);
        expect((await workspace.call("sk_owner", "GET /v1/keys")).body.data).toEqual([]);
      });
    }

    it("rejects a date without a time with an example of both", async () => {
      await fresh();
      const { body } = await workspace.call("sk_owner", "POST /v1/keys", want({ expires_at: "2030-01-01" }));
      const message = "must be an ISO 8601 date-time such as 2027-01-31T00:00:00Z";
      expect(body.error.details).toEqual([{ path: "expires_at", message }]);
    });

    it("counts characters as code points: 200 astral ones fit a name", async () => {
      await fresh();
      expect(await workspace.mint({ name: "𝒳".repeat(200) })).toMatchObject({ name: "𝒳".repeat(200) });
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/keys", want({ name: "𝒳".repeat(201) })),
        400,
        "invalid_request",
        "name",
      );
    });

    it("hides a key of another workspace from every method", async () => {
      await fresh();
      const foreign = await workspace.mint();
      await fresh();
      for (const route of [
        `GET /v1/keys/${foreign.id}`,
        `PATCH /v1/keys/${foreign.id}`,
        `POST /v1/keys/${foreign.id}/rotate`,
        `POST /v1/keys/${foreign.id}/revoke`,
      ]) {
        const body = route.startsWith("GET") ? undefined : {};
        expectRefusal(await workspace.call("sk_owner", route, body), 404, "not_found");
      }
      expect(await workspace.actions()).toEqual([]);
    });

    it("lists newest first, filters, hides revoked keys, and pages by `after`", async () => {
      await fresh();
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) ids.push((await workspace.mint({ env: i === 4 ? "test" : "live" })).id);
      await workspace.call("sk_owner", `POST /v1/keys/${ids[0]}/revoke`);
      const list = async (query: string, as: "sk_owner" | "sk_test" = "sk_owner") => {
        const { body } = await workspace.call(as, `GET /v1/keys${query}`);
        return { ids: (body.data as { id: string }[]).map(({ id }) => id), more: body.has_more };
      };
      const [a, b, c, d, e] = ids as [string, string, string, string, string];
      expect(await list("")).toEqual({ ids: [e, d, c, b], more: undefined });
      expect(await list("?include_revoked=true")).toEqual({ ids: [e, d, c, b, a], more: undefined });
      expect(await list("?env=live&limit=2")).toEqual({ ids: [d, c], more: true });
      expect(await list(`?limit=2&after=${c}`)).toEqual({ ids: [b], more: undefined });
      expect(await list(`?project_id=${NOWHERE}`)).toEqual({ ids: [], more: undefined });
      expect(await list(`?tenant_id=${workspace.tenant_id}&project_id=${workspace.project_id}&env=test`)).toEqual({
        ids: [e],
        more: undefined,
      });
      expect(await list("", "sk_test")).toEqual({ ids: [e], more: undefined });
      const some = `?ids=${a},${d.toUpperCase()},${e},${NOWHERE}`;
      expect(await list(some)).toEqual({ ids: [e, d], more: undefined });
      expect(await list(`${some}&include_revoked=true`)).toEqual({ ids: [e, d, a], more: undefined });
      expect(await list(some, "sk_test")).toEqual({ ids: [e], more: undefined });
      expectRefusal(await workspace.call("sk_owner", `GET /v1/keys?q=a&ids=${a}`), 400, "invalid_request");
      expectRefusal(await workspace.call("sk_test", "GET /v1/keys?env=live"), 403, "forbidden");
      expectRefusal(await workspace.call("sk_owner", `GET /v1/keys?after=${NOWHERE}`), 400, "invalid_request", "after");
      expectRefusal(await workspace.call("sk_owner", "GET /v1/keys?limit=201"), 400, "invalid_request", "limit");
      expectRefusal(await workspace.call("sk_owner", "GET /v1/keys?limit=5&limit=6"), 400, "invalid_request", "limit");
      expectRefusal(await workspace.call("sk_owner", "GET /v1/keys?sort=asc"), 400, "invalid_request", "sort");
    });

    it("lets a test secret key neither read nor manage a live key", async () => {
      await fresh();
      const { id } = await workspace.mint();
      expectRefusal(await workspace.call("sk_test", `GET /v1/keys/${id}`), 404, "not_found");
      for (const verb of ["rotate", "revoke"]) {
        const reply = await workspace.call("sk_test", `POST /v1/keys/${id}/${verb}`);
        expectRefusal(reply, 403, "forbidden");
        expect(reply.body.error.message).toBe("A test secret key cannot manage live resources.");
      }
      expect((await workspace.call("sk_test", "POST /v1/keys", want({ env: "test" }))).status).toBe(201);
    });

    it("replaces the fields sent, records old and new values and raises the version; writes nothing if nothing changed", async () => {
      await fresh();
      const key = await workspace.mint({ meta: { a: 1, b: 2 }, rate_limits: [limit] });
      const version = async () =>
        (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body.policy_version;
      const before = await version();
      const reply = await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, {
        name: "new",
        meta: { a: 3 },
        rate_limits: null,
      });
      expect(reply.body).toMatchObject({ name: "new", meta: { a: 3 }, rate_limits: null });
      expect(await version()).toBe(before + 1);
      for (const same of [{}, { name: "new" }, { meta: { a: 3 } }]) {
        expect((await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, same)).status).toBe(200);
      }
      expect(await version()).toBe(before + 1);
      expect(await workspace.actions()).toEqual(["api_key.created", "api_key.updated"]);
      const { body } = await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200");
      const payload = body.data.at(-1).payload;
      expect(payload).toEqual({
        env: "live",
        name: { old: null, new: "new" },
        rate_limits: { old: [limit], new: null },
        meta: { changed: true },
      });
    });

    it("sets and removes an expiry, but not one in the past", async () => {
      await fresh();
      const { id } = await workspace.mint();
      const at = new Date(instance.clock.now() + HOUR_MS).toISOString();
      expect((await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, { expires_at: at })).body.expires_at).toBe(at);
      expect(
        (await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, { expires_at: null })).body.expires_at,
      ).toBeNull();
      const past = { expires_at: new Date(instance.clock.now()).toISOString() };
      expectRefusal(
        await workspace.call("sk_owner", `PATCH /v1/keys/${id}`, past),
        400,
        "invalid_request",
        "expires_at",
      );
    });
  });
}
