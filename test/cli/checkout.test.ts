// bin/keyrack runs the files of a checkout. Other tests run the same program bundled (harness/setup/program.ts).
import { execFileSync } from "node:child_process";
import { existsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { CHECKOUT, cleanEnv, startServer } from "../../harness/processes/server.ts";
import { root } from "../../harness/repository.ts";
import { VERSION } from "../../src/platform/version.ts";

it("serves from a checkout and stops with its launcher's process id", async () => {
  const server = await startServer(["--ephemeral"], {}, CHECKOUT);
  expect(server.ready.pid).toBe(server.child.pid);
  expect((await fetch(`${server.ready.url}/healthz`)).status).toBe(200);
  expect(await server.end("SIGTERM")).toBe(0);
});

it("stops with the npm start that runs it", async () => {
  using temp = tempDir();
  const npm = join(temp.dir, "npm-start");
  writeFileSync(npm, `#!/bin/sh\nshift\nexec npm -s --prefix ${root} start -- "$@"\n`, { mode: 0o755 });
  const server = await startServer(["--ephemeral"], { HOME: temp.dir, TMPDIR: temp.dir }, npm);
  const isRunning = (): boolean => existsSync(`/proc/${server.ready.pid}`);
  try {
    await server.end("SIGTERM");
    await expect.poll(isRunning).toBe(false);
  } finally {
    if (isRunning()) process.kill(server.ready.pid, "SIGKILL");
  }
});

it("runs through symbolic links, from any folder", () => {
  using temp = tempDir();
  symlinkSync(CHECKOUT, join(temp.dir, "first"));
  symlinkSync("first", join(temp.dir, "second"));
  const ran = execFileSync(join(temp.dir, "second"), ["version"], { cwd: "/", env: cleanEnv(), encoding: "utf8" });
  expect(ran).toBe(`${VERSION}\n`);
});
