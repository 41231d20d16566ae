// Flags that take a list: repeated, or as JSON. A list in another notation must not be stored as one strange value.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSeededServer, type SeededServer } from "../../harness/processes/seeded-server.ts";
import { parseList } from "../../src/cli/api/list-flag.ts";
import { ExitError } from "../../src/cli/ui/output.ts";

let cli: SeededServer;

beforeAll(async () => {
  cli = await startSeededServer();
});

afterAll(() => cli?.[Symbol.asyncDispose]());

describe("the value of a list", () => {
  it.each<[string[], string[]]>([
    [["a"], ["a"]],
    [
      ["a", "b"],
      ["a", "b"],
    ],
    [['["a","b"]'], ["a", "b"]],
    [
      ["a", '["b,c"]'],
      ["a", "b,c"],
    ],
    [['["two words"]'], ["two words"]],
    [["[]"], []],
    [[""], []],
  ])("%j is %j", (given, list) => {
    expect(parseList("scopes", given)).toEqual(list);
  });

  it.each(["a,b", "a b", "a\n", " a", "a, b", "[a]", '["a"', "[1]", '[["a"]]'])("scopes refuse %j", (value) => {
    expect(() => parseList("scopes", [value])).toThrow(ExitError);
    expect(() => parseList("scopes", ["a", value])).toThrow(ExitError);
  });

  it("only scopes refuse a comma: the server checks the form of every other list", () => {
    expect(parseList("allowed-cidrs", ["10.0.0.0/8,192.0.2.0/24"])).toEqual(["10.0.0.0/8,192.0.2.0/24"]);
  });
});

describe("a list with commas", () => {
  const flags = () => ["--project-id", cli.seed.project_id, "--tenant-id", cli.seed.tenant_id, "--env", "live"];
  const count = async () =>
    ((await cli.api("GET", "/v1/keys?limit=100")) as unknown as { data: unknown[] }).data.length;

  it.each([
    ["--scopes", "orders:read,orders:write", 2],
    ["--scopes", "orders:read orders:write", 2],
    ["--scopes", "[orders:read]", 2],
    ["--allowed-cidrs", "10.0.0.0/8,192.0.2.0/24", 1],
  ])("creates no key: %s %s", async (flag, value, code) => {
    const before = await count();
    const ran = await cli.run(["key", "create", ...flags(), flag, value]);
    expect([ran.code, ran.stdout], ran.stderr).toEqual([code, ""]);
    expect(await count()).toBe(before);
  });

  it.each([
    ["plan", "create", "--name", "Pro", "--slug", "pro", "--scopes", "a,b"],
    [
      "embed-token",
      "create",
      "--project-id",
      "PROJECT",
      "--tenant-id",
      "TENANT",
      "--env",
      "live",
      "--scopes",
      "keys:read,key_scope:a",
    ],
    ["key", "lookup", "--scopes", "a,b"],
  ])("is refused by %s %s before anything is sent", async (...args) => {
    const ids: Record<string, string> = { PROJECT: cli.seed.project_id, TENANT: cli.seed.tenant_id };
    const ran = await cli.run(args.map((arg) => ids[arg] ?? arg));
    expect([ran.code, ran.stdout]).toEqual([2, ""]);
    expect(ran.stderr).toContain("--scopes is repeated for each value: --scopes a --scopes b.");
    expect(ran.stderr.trim().split("\n")).toHaveLength(1);
  });

  it("says how to write a scope that really has one, and that works", async () => {
    const { stderr } = await cli.run(["key", "create", ...flags(), "--scopes", "a,b"]);
    const [, json = ""] = /--scopes '(\[.*\])'/.exec(stderr) ?? [];
    const { stdout } = await cli.run(["key", "create", ...flags(), "--scopes", json, "--scopes", "c", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ scopes: ["a,b", "c"] });
  });

  it("is what --ids of a list takes", async () => {
    const key = { project_id: cli.seed.project_id, tenant_id: cli.seed.tenant_id, env: "live" };
    const ids = [(await cli.api("POST", "/v1/keys", key)).id, (await cli.api("POST", "/v1/keys", key)).id];
    const { stdout } = await cli.run(["key", "list", "--ids", ids.join(","), "--quiet"]);
    expect(stdout.trim().split("\n").toSorted()).toEqual(ids.toSorted());
  });
});
