// The short version of `npm run prove -- fleet`, which uses twenty processes.
import { expect, it } from "vitest";
import { fleet } from "../../prove/fleet.ts";

it("revoke?wait=true over three processes: complete, and none admits the key after the response", async () => {
  const report = await fleet(3);
  expect(report).toMatchObject({ nodes: 3, acked: 3, complete: true, problems: [] });
});
