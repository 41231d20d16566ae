// The image runs with nothing but its own files. Not part of the default run: `npm run build && npm run test:binary`.
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readImage, type Platform } from "../../harness/oci-image.ts";
import { canChroot } from "../../harness/processes/chroot.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { Container, mintKey, NEW_VOLUME } from "../../harness/processes/container.ts";
import { TESTED_VERSION } from "../../harness/release/tested-version.ts";
import { architectures } from "../../tools/release/architectures.ts";
import { buildOci } from "../../tools/release/oci.ts";
import type { Target } from "../../tools/sea/targets.ts";

const binary = process.env.KEYRACK_TEST_BIN ?? "";
const here: Target = process.arch === "x64" ? "linux-x64" : "linux-arm64";
const COMPRESSED_MAX = 60e6;
const TIMEOUT_MS = 600_000;
const temp = tempDir();
afterAll(() => temp[Symbol.dispose]());

describe.runIf(binary && canChroot("the image in a chroot"))("a container", { timeout: TIMEOUT_MS }, () => {
  let platform: Platform;
  beforeAll(async () => {
    const out = join(temp.dir, "image.tar");
    await buildOci({ binaries: { [here]: binary }, version: TESTED_VERSION, commit: null, out, epoch: 1_700_000_000 });
    platform = readImage(out, temp.dir).platforms.get(architectures[here]) as Platform;
  }, TIMEOUT_MS);

  /** Serves, is ready, mints a key, stops with 0, and is then not ready. */
  async function expectService(container: Container): Promise<void> {
    const service = await container.serve();
    const ready = () => service.cli(["status", "--ready"]);
    try {
      expect(await ready()).toEqual({ code: 0, stdout: "", stderr: "" });
      expect(await mintKey(service)).toMatch(/^kr_live_/);
    } finally {
      expect(await service.stop()).toBe(0);
    }
    expect(await ready()).toEqual({ code: 3, stdout: "", stderr: "" });
  }

  it(`takes at most ${COMPRESSED_MAX / 1e6} MB`, () => {
    expect(platform.compressed).toBeLessThan(COMPRESSED_MAX);
  });

  it("serves with a volume as an engine makes it", async () => {
    await expectService(new Container(platform, temp.dir, NEW_VOLUME));
  });

  it("serves with the volume and the secret of a Kubernetes pod", async () => {
    const pod = { KEYRACK_DATA_DIR: "/data/keyrack", KEYRACK_MASTER_KEY_FILE: "/etc/master.key" };
    const container = new Container(platform, temp.dir, { owner: [0, 4747], mode: 0o2775 }, pod);
    const secret = join(container.root.dir, "etc/master.key");
    writeFileSync(secret, "ab".repeat(32));
    chownSync(secret, 0, 4747);
    chmodSync(secret, 0o440);
    await expectService(container);
  });

  it("refuses a secret that every user can read", async () => {
    const container = new Container(platform, temp.dir, NEW_VOLUME, { KEYRACK_MASTER_KEY_FILE: "/etc/master.key" });
    writeFileSync(join(container.root.dir, "etc/master.key"), "ab".repeat(32), { mode: 0o444 });
    const ran = await container.run(["keyrack", "serve"]);
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("is readable by others");
  });
});
