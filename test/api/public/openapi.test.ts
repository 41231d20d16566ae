// The served API description is the one that is reviewed.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { testInstance } from "../../../harness/instances/test-instance.ts";

it("GET /openapi.json serves the reviewed document to anyone", async () => {
  await using r = await testInstance("sqlite");
  const reply = await r.call(null, "GET /openapi.json");
  expect(reply.status).toBe(200);
  const golden = JSON.parse(readFileSync(new URL("../../golden/openapi.json", import.meta.url), "utf8")) as object;
  expect(reply.body).toEqual(golden);
});
