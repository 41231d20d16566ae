// The short form of `npm run prove -- fleet`, which takes twenty processes.
import { expect, it } from "vitest";
import { fleet } from "../../prove/fleet.ts";

it("revoke?wait=true over five processes: complete, and none admits the key after the answer", async () => {
  const report = await fleet(5);
  expect(report).toMatchObject({ nodes: 5, acked: 5, complete: true, problems: [] });
}, 60_000);
