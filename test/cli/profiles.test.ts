// Profiles: login, whoami, profile and logout.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PASSWORD, startSeededServer, UNREACHABLE, type SeededServer } from "../../harness/processes/seeded-server.ts";

let cli: SeededServer;

beforeAll(async () => {
  cli = await startSeededServer();
});

afterAll(() => cli?.[Symbol.asyncDispose]());

describe("profiles", () => {
  it("keep credentials private, send them to their own server only, and remove them", async () => {
    await cli.signUp("ada@example.com");
    const own = { XDG_CONFIG_HOME: join(cli.dir, "profiles"), KEYRACK_SECRET_KEY: "", KEYRACK_URL: "" };
    const login = await cli.run(
      ["login", "--url", cli.seed.url, "--email", "ada@example.com", "--password-stdin", "--profile", "ada"],
      own,
      PASSWORD,
    );
    expect(login).toMatchObject({ code: 0, stderr: "" });
    expect(
      (
        await cli.run(
          ["login", "--url", cli.seed.url, "--secret-key", "-", "--profile", "ci"],
          own,
          cli.seed.secret_key,
        )
      ).code,
    ).toBe(0);
    expect((await cli.run(["whoami", "--profile", "ada"], own)).stdout).toContain("ada@example.com");
    expect((await cli.run(["project", "list", "--quiet"], own)).stdout).toContain(cli.seed.project_id);
    const listed = await cli.run(["profile", "list"], own);
    expect(listed.stdout).not.toContain(cli.seed.secret_key);
    const elsewhere = await cli.run(["project", "list", "--url", UNREACHABLE], own);
    expect(elsewhere).toMatchObject({ code: 2, stderr: expect.stringContaining("No credential for") as string });
    expect((await cli.run(["profile", "use", "ada"], own)).code).toBe(0);
    expect((await cli.run(["logout"], own)).stdout).toContain("Ended the session");
    expect((await cli.run(["profile", "remove", "ci"], own)).code).toBe(0);
    expect((await cli.run(["profile", "list", "--json"], own)).stdout).toBe('{"object":"list","data":[]}\n');
  });
});

describe("a file of profiles", () => {
  const login = (env: Record<string, string>) =>
    cli.run(["login", "--url", cli.seed.url, "--secret-key", "-"], env, cli.seed.secret_key);

  it.each(["", "home"])("is not written below HOME=%s, which is no absolute path", async (HOME) => {
    for (const XDG_CONFIG_HOME of ["", "relative"]) {
      const ran = await login({ HOME, XDG_CONFIG_HOME });
      const stderr = "keyrack: HOME is not an absolute path. Set it to a folder for profiles.\n";
      expect(ran).toMatchObject({ code: 2, stdout: "", stderr });
      const listed = await cli.run(["profile", "list", "--json"], { HOME, XDG_CONFIG_HOME });
      expect(listed).toMatchObject({ code: 0, stdout: '{"object":"list","data":[]}\n' });
    }
    expect([".config", "home", "relative"].filter((name) => existsSync(join(cli.dir, name)))).toEqual([]);
  });

  it("is below HOME where XDG_CONFIG_HOME is relative", async () => {
    const HOME = join(cli.dir, "person");
    expect((await login({ HOME, XDG_CONFIG_HOME: "relative" })).code).toBe(0);
    expect(existsSync(join(HOME, ".config/keyrack/profiles.json"))).toBe(true);
    expect(existsSync(join(cli.dir, "relative"))).toBe(false);
  });

  it.each([
    ["a number", "5"],
    ["an object without a URL", '{"secret_key":"x"}'],
  ])("that has a broken profile is refused with its name: %s", async (_what, profile) => {
    const home = join(cli.dir, "broken");
    mkdirSync(join(home, "keyrack"), { recursive: true });
    writeFileSync(join(home, "keyrack", "profiles.json"), `{"profiles":{"x":${profile}}}`, { mode: 0o600 });
    const message = 'the profile "x" has no URL. Fix or remove it.';
    for (const args of [
      ["profile", "list"],
      ["whoami", "--profile", "x"],
    ])
      expect(await cli.run(args, { XDG_CONFIG_HOME: home })).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(message) as string,
      });
  });
});

describe("keyrack login", () => {
  it("saves a secret key that may only verify, and refuses one that is not valid", async () => {
    const own = { XDG_CONFIG_HOME: join(cli.dir, "restricted"), KEYRACK_SECRET_KEY: "", KEYRACK_URL: "" };
    const login = ["login", "--url", cli.seed.url, "--secret-key", "-", "--profile", "verify"];
    const ran = await cli.run(login, own, cli.seed.verify_key);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toContain("as a restricted secret key.");
    const shown = await cli.run(["workspace", "show", "--profile", "verify"], own);
    expect(shown).toMatchObject({ code: 1, stderr: expect.stringContaining("lacks a permission") as string });
    const wrong = await cli.run(login, own, `${cli.seed.verify_key.slice(0, -6)}AAAAAA`);
    expect(wrong).toMatchObject({ code: 1, stdout: "" });
  });

  it("takes an empty KEYRACK_URL for one that is not set", async () => {
    const own = { XDG_CONFIG_HOME: join(cli.dir, "empty"), KEYRACK_SECRET_KEY: "", KEYRACK_URL: "" };
    const ran = await cli.run(["login", "--secret-key", "-"], own, "krsk_live_x");
    expect(ran.stderr).not.toContain("is not an http:// or https:// URL");
  });
});

describe("keyrack workspace create --save", () => {
  const home = (name: string) => ({
    XDG_CONFIG_HOME: join(cli.dir, name),
    KEYRACK_SECRET_KEY: "",
    KEYRACK_URL: cli.seed.url,
    KEYRACK_BOOTSTRAP_TOKEN: cli.seed.bootstrap_token,
  });
  const create = (slug: string, env: Record<string, string>, ...flags: string[]) =>
    cli.run(["workspace", "create", "--name", slug, "--slug", slug, "--save", "--quiet", ...flags], env);
  const names = async (env: Record<string, string>): Promise<string[]> =>
    (await cli.run(["profile", "list", "--quiet"], env)).stdout.trim().split("\n").toSorted();

  it("prints the secret key although it cannot be saved", async () => {
    const ran = await create("unsaved", { ...home("unused"), XDG_CONFIG_HOME: "/dev/null/x" });
    expect(ran.stdout).toMatch(/^krsk_live_\S+\n$/);
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining("is not saved in a profile") as string });
  });

  it("saves it in the profile of --profile, of KEYRACK_PROFILE, or in default, each of which may be new", async () => {
    const own = home("saved");
    const flag = await create("by-flag", own, "--profile", "fresh");
    const variable = await create("by-variable", { ...own, KEYRACK_PROFILE: "prod" });
    const neither = await create("by-default", { ...own, KEYRACK_PROFILE: "" });
    expect([flag, variable, neither].map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array.from({ length: 3 }, () => ({ code: 0, stderr: "" })),
    );
    expect(await names(own)).toEqual(["default", "fresh", "prod"]);
    const show = await cli.run(["workspace", "show", "--profile", "prod"], own);
    expect(show.stdout).toContain("by-variable");
  });

  it("replaces a secret key of the same server, as scripts that run it again expect", async () => {
    const own = home("again");
    await create("first", own);
    expect(await create("second", own)).toMatchObject({ code: 0, stderr: "" });
    expect(await names(own)).toEqual(["default"]);
    expect((await cli.run(["workspace", "show"], own)).stdout).toContain("second");
  });

  it.each([
    ["a session", { url: "", session_token: "krst_x" }],
    [`a credential of ${UNREACHABLE}`, { url: UNREACHABLE, secret_key: "krsk_live_x" }],
  ])("replaces %s only if forced, and creates no workspace otherwise", async (held, profile) => {
    const slug = `kept-${profile.url === "" ? "session" : "other"}`;
    const own = home(slug);
    mkdirSync(join(own.XDG_CONFIG_HOME, "keyrack"), { recursive: true });
    const file = join(own.XDG_CONFIG_HOME, "keyrack", "profiles.json");
    const kept = { current: "default", profiles: { default: { ...profile, url: profile.url || cli.seed.url } } };
    writeFileSync(file, JSON.stringify(kept), { mode: 0o600 });
    expect(await create(slug, own)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(`"default" holds ${held}.`) as string,
    });
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(kept);
    // The slug is free: no workspace was created before.
    expect(await create(slug, own, "--force")).toMatchObject({ code: 0, stderr: "" });
    expect((await cli.run(["workspace", "show"], own)).stdout).toContain(slug);
  });
});

describe("keyrack workspace create", () => {
  it("finds the bootstrap token in the data dir that keyrack.toml names", async () => {
    const file = join(cli.dir, "other.toml");
    writeFileSync(file, `data_dir = ${JSON.stringify(cli.seed.data_dir)}\n`, { mode: 0o600 });
    const own = { KEYRACK_SECRET_KEY: "", KEYRACK_URL: cli.seed.url, KEYRACK_CONFIG: file };
    const ran = await cli.run(["workspace", "create", "--name", "Toml", "--slug", "toml", "--quiet"], own);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
  });

  it("takes an empty KEYRACK_URL for one that is not set", async () => {
    const own = { XDG_CONFIG_HOME: join(cli.dir, "empty-url"), KEYRACK_SECRET_KEY: "" };
    const login = ["login", "--url", cli.seed.url, "--secret-key", "-"];
    expect((await cli.run(login, { ...own, KEYRACK_URL: "" }, cli.seed.secret_key)).code).toBe(0);
    const list = ["project", "list", "--quiet"];
    const ran = await cli.run(list, { ...own, KEYRACK_SECRET_KEY: cli.seed.secret_key, KEYRACK_URL: "" });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
  });
});
