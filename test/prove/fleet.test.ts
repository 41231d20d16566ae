// The short version of `npm run prove -- fleet`, which uses twenty processes.
import { expect, it } from "vitest";
import { fleet } from "../../prove/fleet.ts";

it("revoke?wait=true over five processes: complete, and none admits the key after the response", async () => {
  const report = await fleet(5);
  expect(report).toMatchObject({ nodes: 5, acked: 5, complete: true, problems: [] });
});
