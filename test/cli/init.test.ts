// `keyrack init`.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
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

  it("prints the secret key although --save fails, and writes nothing where the profile is of another server", async () => {
    using temp = tempDir();
    const init = (dir: string, home: string, ...more: string[]) => {
      const flags = ["--out", `${dir}.toml`, "--data-dir", dir, "--workspace-name", "Acme", "--workspace-slug", "acme"];
      return keyrack(["init", "--yes", "--save", "--quiet", ...flags, ...more], {
        cwd: temp.dir,
        env: { XDG_CONFIG_HOME: home, KEYRACK_PROFILE: "prod" },
      });
    };
    const unsaved = await init("one", "/dev/null/x");
    expect(unsaved).toMatchObject({ code: 1, stdout: expect.stringMatching(/^krsk_live_\S+\n$/) as string });
    const home = join(temp.dir, "home");
    expect(await init("two", home)).toMatchObject({ code: 0, stderr: "" });
    const refused = await init("three", home, "--force", "--public-url", "https://keys.example.com");
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('"prod" holds a credential') as string });
    expect(await init("four", home)).toMatchObject({ code: 0, stderr: "" });
    const written = ["one", "two", "three", "four"].map((dir) => existsSync(join(temp.dir, `${dir}.toml`)));
    expect(written).toEqual([true, true, false, true]);
  });

  it("saves the URL of an IPv6 host in brackets", async () => {
    using temp = tempDir();
    const options = { cwd: temp.dir, env: { XDG_CONFIG_HOME: join(temp.dir, "home") } };
    const flags = ["--host", "::1", "--workspace-name", "Acme", "--workspace-slug", "acme", "--save"];
    expect(await keyrack(["init", "--yes", ...flags], options)).toMatchObject({ code: 0 });
    const { stdout } = await keyrack(["profile", "list", "--json"], options);
    expect(JSON.parse(stdout)).toMatchObject({ data: [{ url: "http://[::1]:4747" }] });
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
