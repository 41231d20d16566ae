// A binary does its work: the short test that also runs on another platform's binary under qemu. Not part of the default
// run: `npm run test:binary`.
import { describe, expect, it } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";
import { CLI_TIMEOUT_MS } from "../../harness/processes/seeded-server.ts";
import { startServer } from "../../harness/processes/server.ts";
import { VERSION } from "../../src/platform/version.ts";

describe.runIf(process.env.KEYRACK_TEST_BIN)("a binary", { timeout: CLI_TIMEOUT_MS }, () => {
  it("prints its version and the licences of what is inside", async () => {
    expect(await keyrack(["version"])).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: "" });
    const notices = (await keyrack(["version", "--notices"])).stdout;
    const sections = notices.match(/^Licence: .+$/gm) ?? [];
    expect(sections.length).toBeGreaterThan(20);
  });

  it("mints and revokes a key, verifies its audit log, and stops with 0 on SIGTERM", async () => {
    const server = await startServer(["--ephemeral", "--seed"]);
    const seed = server.ready as unknown as Record<"url" | "secret_key" | "project_id" | "tenant_id", string>;
    const run = async (...args: string[]): Promise<string> => {
      const env = { KEYRACK_URL: seed.url, KEYRACK_SECRET_KEY: seed.secret_key };
      const { code, stdout, stderr } = await keyrack(args, { env });
      expect([code, stderr]).toEqual([0, ""]);
      return stdout;
    };
    const ids = ["--project-id", seed.project_id, "--tenant-id", seed.tenant_id];
    const made = await run("key", "create", ...ids, "--env", "live", "--json");
    const { id, key } = JSON.parse(made) as { id: string; key: string };
    expect(key).toMatch(/^kr_live_/);
    await run("key", "revoke", id);
    const shown = JSON.parse(await run("key", "show", id, "--json")) as { revoked_at: string | null };
    expect(shown.revoked_at).not.toBeNull();
    expect(await run("audit", "verify")).toMatch(/^Audit log verified: \d+ rows/);
    expect(await server.end("SIGTERM")).toBe(0);
  });
});
