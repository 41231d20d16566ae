// Finding tenants: by words, by ids, and in pages.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`finding tenants on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    const ids = new Map<string, string>();
    const idOf = (external_id: string): string => ids.get(external_id) ?? "";
    beforeAll(async () => {
      workspace = await instance.workspace();
      const first = await workspace.call("sk_owner", "GET /v1/tenants");
      for (const { id } of first.body.data) await workspace.call("sk_owner", `DELETE /v1/tenants/${id}`);
      for (const [external_id, name] of [
        ["cus_1", "Globex Corporation"],
        ["cus_2", "Initech"],
        ["cus_3", "Ümläut & Söhne"],
        ["other", undefined],
      ] as const) {
        const { body } = await workspace.call("sk_owner", "POST /v1/tenants", { external_id, ...(name && { name }) });
        ids.set(external_id, body.id);
        instance.clock.advance(1);
      }
    });

    const list = async (query: string): Promise<{ found: string[]; body: Json }> => {
      const { body, text } = await workspace.call("sk_owner", `GET /v1/tenants?${query}`);
      expect(body.data, text).toBeDefined();
      return { found: body.data.map((tenant: Json) => tenant.external_id), body };
    };

    it("finds terms that begin a term of the external id or the name, newest first", async () => {
      for (const [q, expected] of [
        ["cus", ["cus_3", "cus_2", "cus_1"]],
        ["GLOB", ["cus_1"]],
        ["corp cus", ["cus_1"]],
        ["söhne", ["cus_3"]],
        ["lobex", []],
        [idOf("cus_2"), ["cus_2"]],
        ["01a1e3c8-0444-732a-922b-13ab70423f87", []],
      ] as const) {
        const { found, body } = await list(`q=${encodeURIComponent(q)}`);
        expect([q, found, body.next_cursor]).toEqual([q, expected, null]);
      }
    });

    it("finds an external id that looks like a display prefix, and refuses a whole key", async () => {
      const external_id = "acme_live_customer7";
      const { body } = await workspace.call("sk_owner", "POST /v1/tenants", { external_id });
      for (const q of [external_id, "acme_live_cust", "kr_live_customer7", "live_customer7"])
        expect([q, (await list(`q=${q}`)).found]).toEqual([q, q.startsWith("kr_") ? [] : [external_id]]);
      for (const key of [
        `kr_live_${"x".repeat(40)}`,
        workspace.keys.sk_test,
        `acme_live_${"x".repeat(40)}`,
        `krses_${"x".repeat(40)}`,
      ])
        expectRefusal(await workspace.call("sk_owner", `GET /v1/tenants?q=${key}`), 400, "invalid_request", "q");
      await workspace.call("sk_owner", `DELETE /v1/tenants/${body.id}`);
    });

    it("pages a search by cursor and the plain list by its last id", async () => {
      const first = await list("q=cus&limit=2");
      expect(first.found).toEqual(["cus_3", "cus_2"]);
      expect((await list(`q=cus&limit=2&cursor=${String(first.body.next_cursor)}`)).found).toEqual(["cus_1"]);
      const plain = await list("limit=3");
      expect([plain.found, plain.body.has_more]).toEqual([["other", "cus_3", "cus_2"], true]);
      expect((await list(`limit=3&after=${idOf("cus_2")}`)).found).toEqual(["cus_1"]);
    });

    it("lists the tenants with the given ids, and none of another workspace", async () => {
      const other = await instance.workspace();
      const { body } = await other.call("sk_owner", "POST /v1/tenants", { external_id: "cus_x" });
      expect((await list(`ids=${idOf("cus_1")},${idOf("other").toUpperCase()},${body.id}`)).found).toEqual([
        "other",
        "cus_1",
      ]);
      expect((await list(`q=${body.id}`)).found).toEqual([]);
    });

    it("refuses a credential in the search, and parameters that do not go together", async () => {
      const secret = `GET /v1/tenants?q=${workspace.keys.sk_owner}`;
      expectRefusal(await workspace.call("sk_owner", secret), 400, "invalid_request");
      for (const query of [
        "q=--",
        "cursor=x",
        `q=a&after=${idOf("cus_1")}`,
        `q=a&ids=${idOf("cus_1")}`,
        "ids=1,2",
        "limit=201",
      ])
        expectRefusal(await workspace.call("sk_owner", `GET /v1/tenants?${query}`), 400, "invalid_request");
    });
  });
}
