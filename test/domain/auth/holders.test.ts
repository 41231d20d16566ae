// How the holder of an API key is resolved: the steps behind it run in the same turn of the event loop.
import { expect, it } from "vitest";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { resolveHolder } from "../../../src/domain/auth/holders.ts";
import { fail } from "../../../src/kernel/errors.ts";

const USE = { ending: false, retryable: false };

it("resolves a holder on SQLite without a promise, so that the request stays in its owner's turn", async () => {
  await using instance = await testInstance("sqlite");
  const { services } = instance.app;
  const workspace = await instance.workspace();
  const { id, key } = await workspace.mint();
  expect(resolveHolder(services, key, null, USE)).toMatchObject({ kind: "api_key", id, refused: null });
  await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, {});
  expect(() => resolveHolder(services, key, null, USE)).toThrow(fail("invalid_key"));
  expect(resolveHolder(services, workspace.keys.sk_owner, null, USE)).toBeNull();
});
