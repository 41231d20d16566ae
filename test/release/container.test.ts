// The image runs with nothing but its own files, as an engine would run it: read-only root, unprivileged user, one volume.
// Not part of the default run: `npm run build && npm run test:binary`.
import type { ChildProcess } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readImage, unpackRoot, type Platform } from "../../harness/oci-image.ts";
import { canChroot, startInContainer, type Container } from "../../harness/processes/chroot.ts";
import { tempDir, type Ran } from "../../harness/processes/cli.ts";
import { VERSION } from "../../src/platform/version.ts";
import { architectures } from "../../tools/release/architectures.ts";
import { buildOci } from "../../tools/release/oci.ts";
import type { Target } from "../../tools/sea/targets.ts";

const binary = process.env.KEYRACK_TEST_BIN ?? "";
const here: Target = process.arch === "x64" ? "linux-x64" : "linux-arm64";
const COMPRESSED_MAX = 60e6;
const TIMEOUT_MS = 600_000;
const temp = tempDir();
afterAll(() => temp[Symbol.dispose]());

type Volume = { owner: [number, number]; mode: number };

describe.runIf(binary && canChroot("the image in a chroot"))("a container", { timeout: TIMEOUT_MS }, () => {
  let platform: Platform;
  beforeAll(async () => {
    const out = join(temp.dir, "image.tar");
    await buildOci({ binaries: { [here]: binary }, version: VERSION, commit: null, out, epoch: 1_700_000_000 });
    platform = readImage(out, temp.dir).platforms.get(architectures[here]) as Platform;
  }, TIMEOUT_MS);

  function container({ owner, mode }: Volume, env: Record<string, string> = {}): Container {
    const dir = mkdtempSync(join(temp.dir, "container-"));
    const [root, volume] = [join(dir, "root"), join(dir, "volume")];
    chmodSync(dir, 0o755);
    unpackRoot(platform, root);
    mkdirSync(volume);
    chownSync(volume, ...owner);
    chmodSync(volume, mode);
    const { Env, User } = platform.config.config;
    const own = Object.fromEntries(Env.map((each) => each.split("=", 2) as [string, string]));
    return { root, volume, user: User, env: { ...own, KEYRACK_PORT: "0", ...env } };
  }

  async function run(box: Container, args: string[], env: Record<string, string> = {}): Promise<Ran> {
    const child = startInContainer({ ...box, env: { ...box.env, ...env } }, args);
    const ran: Ran = { code: null, stdout: "", stderr: "" };
    child.stdout?.on("data", (chunk: Buffer) => (ran.stdout += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (ran.stderr += chunk.toString()));
    return new Promise((resolve) => child.on("close", (code) => resolve({ ...ran, code })));
  }

  async function firstLine(child: ChildProcess): Promise<{ url: string }> {
    let errors = "";
    child.stderr?.on("data", (chunk: Buffer) => (errors += chunk.toString()));
    const line = await new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).once("line", resolve);
      child.once("exit", (code) => reject(new Error(`it ended with ${code}: ${errors}`)));
    });
    return JSON.parse(line) as { url: string };
  }

  /** Serves, is ready, mints a key for a new workspace, stops with 0, and is then not ready. */
  async function expectService(box: Container): Promise<void> {
    const { Entrypoint, Cmd } = platform.config.config;
    const server = startInContainer(box, [...Entrypoint, ...Cmd, "--json"]);
    const exited = new Promise((resolve) => server.on("exit", resolve));
    const { url } = await firstLine(server);
    const local = { KEYRACK_URL: url.replace("0.0.0.0", "127.0.0.1") };
    const ready = () => run(box, ["keyrack", "status", "--ready"], local);
    try {
      expect(await ready()).toEqual({ code: 0, stdout: "", stderr: "" });
      const create = ["keyrack", "workspace", "create", "--name", "Acme", "--slug", "acme", "--json"];
      const made = await run(box, create, local);
      expect(made.code, made.stderr).toBe(0);
      const { key: secretKey } = (JSON.parse(made.stdout) as { secret_key: { key: string } }).secret_key;
      const cli = async (...args: string[]): Promise<Record<string, string>> => {
        const ran = await run(box, ["keyrack", ...args, "--json"], { ...local, KEYRACK_SECRET_KEY: secretKey });
        expect(ran.code, ran.stderr).toBe(0);
        return JSON.parse(ran.stdout) as Record<string, string>;
      };
      const project = await cli("project", "create", "--name", "P", "--slug", "pro-ject");
      const tenant = await cli("tenant", "create", "--external-id", "t");
      const flags = ["--project-id", project.id ?? "", "--tenant-id", tenant.id ?? "", "--env", "live"];
      expect((await cli("key", "create", ...flags)).key).toMatch(/^kr_live_/);
    } finally {
      server.kill("SIGTERM");
    }
    expect(await exited).toBe(0);
    expect(await ready()).toEqual({ code: 3, stdout: "", stderr: "" });
  }

  it(`takes at most ${COMPRESSED_MAX / 1e6} MB`, () => {
    expect(platform.compressed).toBeLessThan(COMPRESSED_MAX);
  });

  it("serves with a volume as an engine makes it", async () => {
    await expectService(container({ owner: [4747, 4747], mode: 0o700 }));
  });

  it("serves with the volume and the secret of a Kubernetes pod", async () => {
    const pod = { KEYRACK_DATA_DIR: "/data/keyrack", KEYRACK_MASTER_KEY_FILE: "/etc/master.key" };
    const box = container({ owner: [0, 4747], mode: 0o2775 }, pod);
    const secret = join(box.root, "etc/master.key");
    writeFileSync(secret, "ab".repeat(32));
    chownSync(secret, 0, 4747);
    chmodSync(secret, 0o440);
    await expectService(box);
  });

  it("refuses a secret that every user can read", async () => {
    const box = container({ owner: [4747, 4747], mode: 0o700 }, { KEYRACK_MASTER_KEY_FILE: "/etc/master.key" });
    writeFileSync(join(box.root, "etc/master.key"), "ab".repeat(32), { mode: 0o444 });
    const ran = await run(box, ["keyrack", "serve"]);
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("is readable by others");
  });
});
