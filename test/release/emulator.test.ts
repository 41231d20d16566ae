// Whether another platform's binary can be tested here: it is qemu that is asked, not the binary.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { emulatorProblem } from "../../tools/sea/emulator.ts";
import { targets, type Target } from "../../tools/sea/targets.ts";

const foreign: Target = process.arch === "x64" ? "linux-arm64" : "linux-x64";
const { tool, libraries } = targets[foreign].qemu;
afterEach(() => vi.unstubAllEnvs());

it("runs the target's Node under qemu, and says what is in the way", () => {
  using temp = tempDir();
  vi.stubEnv("PATH", `${temp.dir}/bin`);
  mkdirSync(join(temp.dir, "bin"));
  expect(emulatorProblem(foreign, "/node")).toBe(`${tool} is not installed`);
  const qemu = (text: string): void =>
    writeFileSync(join(temp.dir, "bin", tool), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  qemu(`[ "$*" = "-L ${libraries} /node --version" ]`);
  expect(emulatorProblem(foreign, "/node")).toBeNull();
  qemu("echo Could not open ld-linux >&2; exit 255");
  expect(emulatorProblem(foreign, "/node")).toBe("Could not open ld-linux");
});
