// `tenant import` and `key create --from-csv`: what a file may hold, and what a run that continues must have in common.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSeededServer, type SeededServer } from "../../harness/processes/seeded-server.ts";

let cli: SeededServer;
/** A secret key of another workspace on the same server. */
let other = "";

beforeAll(async () => {
  cli = await startSeededServer();
  const made = (await cli.api(
    "POST",
    "/v1/workspaces",
    { name: "Other", slug: "other" },
    cli.seed.bootstrap_token,
  )) as {
    secret_key?: { key: string };
  };
  other = made.secret_key?.key ?? "";
});
afterAll(() => cli?.[Symbol.asyncDispose]());

const write = (name: string, text: string): string => {
  writeFileSync(join(cli.dir, name), text);
  return name;
};
const createKeys = (file: string, ...more: string[]) =>
  cli.run(["key", "create", "--from-csv", file, "--project-id", cli.seed.project_id, "--env", "live", ...more]);

describe("a file", () => {
  it("is refused in another workspace, and created there with --restart", async () => {
    const args = ["tenant", "import", write("tenants.csv", "external_id\nc-1\nc-2\n"), "--json"];
    expect(JSON.parse((await cli.run(args)).stdout)).toMatchObject({ made: 2 });
    const elsewhere = { KEYRACK_SECRET_KEY: other };
    const refused = await cli.run(args, elsewhere);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("another workspace")]);
    const made = await cli.run([...args, "--restart"], elsewhere);
    expect(JSON.parse(made.stdout)).toMatchObject({ made: 2, made_before: 0 });
    expect((await cli.run(["tenant", "list", "--quiet"], elsewhere)).stdout.trim().split("\n")).toHaveLength(2);
  });

  it("continues a run whose state was written by 0.1", async () => {
    const args = ["tenant", "import", write("earlier.csv", "external_id\ne-1\ne-2\n"), "--json"];
    await cli.run(args);
    const state = join(cli.dir, "earlier.csv.keyrack-state");
    const [head = "", first] = readFileSync(state, "utf8").split("\n");
    const { run } = JSON.parse(head) as { run: string };
    writeFileSync(state, `${JSON.stringify({ run })}\n${first}\n`);
    expect(JSON.parse((await cli.run(args)).stdout)).toMatchObject({ made: 1, made_before: 1 });
  });
});
