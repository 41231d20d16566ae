// The typed client supports every part of a declaration: path, query, body, response and error.
import { expect, it } from "vitest";
import { createClient, ApiError } from "../../harness/api-client.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";

it("calls routes with typed input and output, and throws error responses with code and details", async () => {
  await using instance = await testInstance("sqlite");
  const workspace = await instance.workspace();
  const client = createClient({ url: instance.url, bearer: workspace.keys.sk_owner });
  const { project_id, tenant_id } = workspace;
  const key = await client.call("POST /v1/keys", { body: { project_id, tenant_id, env: "live" }, idempotencyKey: "1" });
  const again = await client.call("POST /v1/keys", {
    body: { project_id, tenant_id, env: "live" },
    idempotencyKey: "1",
  });
  expect(again.id).toBe(key.id);
  expect((await client.call("GET /v1/keys/{id}", { params: { id: key.id } })).display_prefix).toBe(key.display_prefix);
  const list = await client.call("GET /v1/keys", { query: { limit: 1, env: "live" } });
  expect(list.data.map(({ id }) => id)).toEqual([key.id]);
  const refused = client.call("GET /v1/keys", { query: { limit: 0 } });
  await expect(refused).rejects.toBeInstanceOf(ApiError);
  await expect(refused).rejects.toMatchObject({ status: 400, code: "invalid_request", details: [{ path: "limit" }] });
  // @ts-expect-error a body without env does not type-check
  await expect(client.call("POST /v1/keys", { body: { project_id, tenant_id } })).rejects.toMatchObject({
    status: 400,
  });
});
