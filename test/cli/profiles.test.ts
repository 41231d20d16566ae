// Profiles: login, whoami, profile and logout.
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
