// What a refusal says: the cause, in words that a reader can act on.
import { beforeAll, describe, expect, it } from "vitest";
import { expectRefusal, sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { mistyped } from "../../harness/mistyped.ts";

const instance = sharedInstance("sqlite");
let workspace: Workspace;
beforeAll(async () => {
  workspace = await instance.workspace();
});

describe("a refusal", () => {
  it("describes types, choices and bounds in words", async () => {
    const reply = await workspace.call("sk_owner", "POST /v1/keys", {
      project_id: workspace.project_id,
      tenant_id: 7,
      env: "prod",
      name: "",
      scopes: "orders:read",
      rate_limits: [{ id: "a", limit: 0, window_ms: 1.5, algorithm: "x", scope: 1 }],
      quotas: [{ id: "q", refill: "yearly", units: 1 }],
    });
    const { details } = reply.body.error as { details: { path: string; message: string }[] };
    expect(Object.fromEntries(details.map(({ path, message }) => [path, message]))).toMatchObject({
      tenant_id: "must be a string",
      env: "must be live or test",
      scopes: "must be a list",
      "quotas[0].refill": "must be none, daily, weekly or monthly",
    });
    expect(details.map(({ message }) => message).filter((text) => /[<>|"]|of type/.test(text))).toEqual([]);
  });

  it("of an empty list says so", async () => {
    const reply = await workspace.call("sk_owner", "POST /v1/bulk/keys", { action: "revoke", filter: { ids: [] } });
    expect(reply.body.error.details).toEqual([{ path: "filter.ids", message: "must not be empty" }]);
  });

  it("names a parameter as it was sent, a question mark included", async () => {
    const reply = await workspace.call("sk_owner", "GET /v1/keys??limit=1");
    expect([reply.status, reply.body.error.details]).toEqual([
      400,
      [{ path: "?limit", message: "is not a known parameter" }],
    ]);
  });

  it("of a name that a map may not have says what names may be", async () => {
    for (const name of ["x".repeat(129), "a b"]) {
      const reply = await workspace.call("sk_owner", "POST /v1/idempotency/complete", { headers: { [name]: "v" } });
      expect(reply.body.error.details).toContainEqual({
        path: `headers.${name}`,
        message: "must have header names of 1 to 128 characters",
      });
    }
  });

  it("cuts the paths of its details, whatever names they contain", async () => {
    const name = "n".repeat(5_000);
    for (const value of ["1e400", '"\\u0000"', "1"]) {
      const raw = `{"external_id":"a","${name}":${value}}`;
      const reply = await workspace.call("sk_owner", "POST /v1/tenants", undefined, { raw });
      expectRefusal(reply, 400, "invalid_request", name.slice(0, 200));
    }
  });

  it("of a credential says whether it is missing, unknown here, or a key that does not work", async () => {
    const messageFor = async (bearer: string | null): Promise<unknown> =>
      (await instance.call(bearer, "GET /v1/workspace")).body.error.message;
    expect(await messageFor(null)).toBe("A credential is required: send Authorization: Bearer <credential>.");
    expect(await messageFor("bad")).toBe(
      "The Authorization header must contain exactly one credential, of a kind that this endpoint accepts.",
    );
    expect(await messageFor(mistyped(workspace.keys.sk_owner))).toBe("Invalid API key.");
  });

  it("of a browser that mints an embed token names the Origin header, not the origin", async () => {
    const headers = { origin: "https://app.example.com" };
    const reply = await workspace.call(
      "sk_owner",
      "POST /v1/embed_tokens",
      { tenant_id: workspace.tenant_id },
      { headers },
    );
    expect([reply.status, reply.body.error.code]).toEqual([403, "origin_not_allowed"]);
    expect(reply.body.error.message).toMatch(
      /^This endpoint is for backends: it refuses requests with an Origin header/,
    );
  });
});
