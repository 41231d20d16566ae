// The served API description is the one that is reviewed.
import { readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { testInstance } from "../../../harness/instances/test-instance.ts";

it("GET /openapi.json serves the reviewed document to anyone", async () => {
  await using instance = await testInstance("sqlite");
  const reply = await instance.call(null, "GET /openapi.json");
  expect(reply.status).toBe(200);
  const golden = JSON.parse(readFileSync(new URL("../../golden/openapi.json", import.meta.url), "utf8")) as object;
  expect(reply.body).toEqual(golden);
  const stringify = vi.spyOn(JSON, "stringify");
  const again = await instance.call(null, "GET /openapi.json");
  const serialised = stringify.mock.calls.filter(
    ([value]) => value !== null && Object.hasOwn(Object(value), "openapi"),
  );
  stringify.mockRestore();
  expect([again.text === reply.text, serialised.length]).toEqual([true, 0]); // once for all requests
});
