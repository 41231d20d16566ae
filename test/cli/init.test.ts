// `keyrack init`.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";

describe("keyrack init", () => {
  it("writes a file that names the same instance from every folder", async () => {
    using temp = tempDir();
    const [made, elsewhere] = [join(temp.dir, "made"), join(temp.dir, "elsewhere")];
    for (const dir of [made, elsewhere]) mkdirSync(dir, { mode: 0o700 });
    const workspace = ["--workspace-name", "Acme", "--workspace-slug", "acme"];
    const ran = await keyrack(["init", "--yes", "--data-dir", "data", ...workspace, "--json"], { cwd: made });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const config = ["--config", join(made, "keyrack.toml")];
    const users = await keyrack(["user", "list", ...config], { cwd: elsewhere });
    expect(users).toMatchObject({ code: 0, stderr: "" });
  });

  it("writes absolute paths, also of the default data dir", async () => {
    using temp = tempDir();
    const flags = ["--database-url", "sqlite:db/keys.db", "--mail-url", "file:mail"];
    mkdirSync(join(temp.dir, "db"));
    expect(await keyrack(["init", "--yes", ...flags], { cwd: temp.dir })).toMatchObject({ code: 0, stderr: "" });
    const lines = readFileSync(join(temp.dir, "keyrack.toml"), "utf8").split("\n");
    expect(lines).toEqual(
      expect.arrayContaining([
        `data_dir = "${temp.dir}/keyrack-data"`,
        `database_url = "sqlite:${temp.dir}/db/keys.db"`,
        `mail_url = "file:${temp.dir}/mail"`,
      ]),
    );
  });
});
