// `keyrack audit list/verify/export` with --offline or --deployment: no flag is ignored, and a list that is cut
// says so.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSeededServer, UNKNOWN_ID, type SeededServer } from "../../harness/processes/seeded-server.ts";

let cli: SeededServer;
beforeAll(async () => {
  cli = await startSeededServer();
});
afterAll(() => cli?.[Symbol.asyncDispose]());

const audit = (...args: string[]) => cli.run(["audit", ...args]);
const offline = (verb: string, ...args: string[]) => audit(verb, "--offline", ...cli.dataDir, ...args);

describe("the audit log read from the database", () => {
  it.each([
    ["--from", "yesterday"],
    ["--cursor", "zz"],
    ["--order", "desc"],
    ["--action", "project.*"],
    ["--before-seq", "2"],
  ])("is not listed with %s, which would be ignored", async (...filter) => {
    const message = "keyrack: With --offline or --deployment only --after-seq and --limit select rows.\n";
    expect(await offline("list", ...filter)).toEqual({ code: 2, stdout: "", stderr: message });
    expect(await audit("list", "--deployment", ...cli.dataDir, ...filter)).toMatchObject({ code: 2, stderr: message });
  });

  it("is listed to the end, where each page says how it continues", async () => {
    const where = ["--workspace-id", cli.seed.workspace_id];
    const { stdout } = await offline("export", ...where);
    const ids = stdout
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { id: string }).id);
    const listed: string[] = [];
    for (let after = 0, more = true; more; ) {
      const page = await offline("list", ...where, "--limit", "1", "--after-seq", String(after), "--json");
      const { data, has_more } = JSON.parse(page.stdout) as { data: { id: string; seq: number }[]; has_more: boolean };
      listed.push(...data.map(({ id }) => id));
      after = data.at(-1)?.seq ?? 0;
      more = has_more;
    }
    expect(ids.length).toBeGreaterThan(1);
    expect(listed).toEqual(ids);
    const text = (await offline("list", "--limit", "1")).stdout;
    expect(text.trimEnd().split("\n").at(-1)).toBe("More results: add --after-seq 1");
    expect((await offline("list", "--limit", "200")).stdout).not.toContain("More results");
    expect((await offline("list", "--limit", "1", "--quiet")).stderr).toBe("More results: add --after-seq 1\n");
  });

  it.each(["list", "export", "verify"])("is refused for an unknown workspace: audit %s", async (verb) => {
    const refused = await offline(verb, "--workspace-id", UNKNOWN_ID);
    expect(refused).toEqual({ code: 2, stdout: "", stderr: `keyrack: There is no audit chain ${UNKNOWN_ID}.\n` });
  });

  it("may have no row of the deployment yet", async () => {
    expect(await offline("export", "--deployment")).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

describe.each(["list", "export", "verify"])("keyrack audit %s", (verb) => {
  it.each([
    ["--data-dir", "/nowhere", " or --deployment"],
    ["--database-url", "sqlite:/nowhere", " or --deployment"],
    ["--config", "/nowhere", " or --deployment"],
    ["--workspace-id", UNKNOWN_ID, ""],
  ])("refuses %s for a server, which would ignore it", async (flag, value, more) => {
    const stderr = `keyrack: ${flag} needs --offline${more}.\n`;
    expect(await audit(verb, flag, value)).toEqual({ code: 2, stdout: "", stderr });
  });

  it("accepts the settings of the environment for a server", async () => {
    const env = { KEYRACK_DATA_DIR: join(cli.dir, "nowhere"), KEYRACK_DATABASE_URL: "sqlite:/nowhere" };
    expect((await cli.run(["audit", verb], env)).code).toBe(0);
  });
});

describe("keyrack audit verify", () => {
  it.each([
    [["--vkey", "key"], "--vkey needs --checkpoint: it is the key that signed it."],
    [["--file", "a", "--offline"], "--file and --offline cannot be used together."],
    [["--file", "a", "--deployment"], "--file and --deployment cannot be used together."],
    [["--deployment", "--workspace-id", UNKNOWN_ID], "--workspace-id and --deployment cannot be used together."],
  ])("refuses %j", async (args, message) => {
    expect(await audit("verify", ...args)).toEqual({ code: 2, stdout: "", stderr: `keyrack: ${message}\n` });
  });
});
