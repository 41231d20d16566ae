// A binary does its work: the short test that also runs on another platform's binary under qemu. Not part of the
// default run: `npm run test:binary`.
import { rmSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";
import { startServer } from "../../harness/processes/server.ts";
import { TESTED_VERSION } from "../../harness/release/tested-version.ts";

/** Under qemu the server alone takes a minute of CPU time. */
const TIMEOUT_MS = 1_800_000;
const STEP_TIMEOUT_MS = 300_000;
/** Set where the emulator ends a program that gets a signal. */
const noSignals = process.env.KEYRACK_TEST_NO_SIGNALS !== undefined;

type Seed = Record<"url" | "secret_key" | "project_id" | "tenant_id", string>;

async function startSeeded() {
  const server = await startServer(["--ephemeral", "--seed"]);
  const { data_dir } = server.ready;
  return {
    seed: server.ready as unknown as Seed,
    stop: () => server.end("SIGTERM"),
    async [Symbol.asyncDispose]() {
      await server.end("SIGKILL");
      rmSync(data_dir, { recursive: true, force: true });
    },
  };
}

describe.runIf(process.env.KEYRACK_TEST_BIN)("a binary", { timeout: TIMEOUT_MS }, () => {
  it("prints its version and the licences of what is inside", async () => {
    expect(await keyrack(["version"])).toEqual({ code: 0, stdout: `${TESTED_VERSION}\n`, stderr: "" });
    const notices = (await keyrack(["version", "--notices"])).stdout;
    const sections = notices.match(/^Licence: .+$/gm) ?? [];
    expect(sections.length).toBeGreaterThan(20);
  });

  it("mints and revokes a key, verifies its audit log, and stops with 0 on SIGTERM", async () => {
    await using server = await startSeeded();
    const { seed } = server;
    // A request that takes long is refused by design, and under emulation on a busy machine many do: try again.
    const run = (...args: string[]): Promise<string> =>
      vi.waitFor(
        async () => {
          const env = { KEYRACK_URL: seed.url, KEYRACK_SECRET_KEY: seed.secret_key };
          const { code, stdout, stderr } = await keyrack(args, { env });
          expect([code, stderr]).toEqual([0, ""]);
          return stdout;
        },
        { timeout: STEP_TIMEOUT_MS },
      );
    const ids = ["--project-id", seed.project_id, "--tenant-id", seed.tenant_id];
    const made = await run("key", "create", ...ids, "--env", "live", "--json");
    const { id, key } = JSON.parse(made) as { id: string; key: string };
    expect(key).toMatch(/^kr_live_/);
    await run("key", "revoke", id);
    const shown = JSON.parse(await run("key", "show", id, "--json")) as { revoked_at: string | null };
    expect(shown.revoked_at).not.toBeNull();
    expect(await run("audit", "verify")).toMatch(/^Audit log verified: \d+ rows/);
    if (!noSignals) expect(await server.stop()).toBe(0);
  });
});
