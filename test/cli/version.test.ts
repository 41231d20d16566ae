// `keyrack version`: plain for scripts that compare it, JSON for those that must know what they run.
import { expect, it } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";
import { VERSION } from "../../src/platform/version.ts";
import { schemaVersion } from "../../src/store/schema/migrate.ts";

it("prints the version alone", async () => {
  expect(await keyrack(["version"])).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: "" });
});

it("names what a checkout is as JSON: the newest schema, no commit, no release", async () => {
  const { code, stdout } = await keyrack(["version", "--json"]);
  expect([code, JSON.parse(stdout)]).toEqual([
    0,
    {
      version: VERSION,
      node: process.versions.node,
      commit: null,
      target: `${process.platform}-${process.arch}`,
      schema: schemaVersion(),
      release: false,
    },
  ]);
  expect(Number.isInteger(schemaVersion())).toBe(true);
});

it("refuses to print notices from a checkout, which has none", async () => {
  const { code, stdout, stderr } = await keyrack(["version", "--notices"]);
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^keyrack: Only the binary contains the notices\./);
});
