// npm run test:binary [-- --target linux-x64|linux-arm64] [--binary FILE]: tests a binary as users run it. Without
// --target it is dist/keyrack (npm run build). With --target the binary is built first, and one for another platform
// runs under qemu.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { skipOrFail } from "../harness/processes/tools.ts";
import { ExitError } from "../src/cli/ui/output.ts";
import { parseFlags, runScript } from "./script.ts";
import { baseNode } from "./sea/base-node.ts";
import { emulatorProblem } from "./sea/emulator.ts";
import { allTargets, commandFor, here, isTarget, root, targets, type Target } from "./sea/targets.ts";

const SMOKE = "test/cli/binary-smoke.test.ts";
const NATIVE = [
  ...["sweep", "exit-codes", "output", "binary"].map((name) => `test/cli/${name}.test.ts`),
  ...["binary", "deb", "container", "readme"].map((name) => `test/release/${name}.test.ts`),
];

function run(command: string, args: string[], env: Record<string, string> = {}): void {
  const { status } = spawnSync(command, args, { cwd: root, stdio: "inherit", env: { ...process.env, ...env } });
  if (status !== 0) throw new ExitError(`${[command, ...args].join(" ")} failed`, 1);
}

function build(target: Target): string {
  const out = join(root, `dist/${target}/keyrack`);
  run(process.execPath, ["tools/build.ts", "--target", target, "--out", out]);
  return out;
}

function test(bin: string, files: string[], env: Record<string, string> = {}): void {
  run(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...files], { ...env, KEYRACK_TEST_BIN: bin });
}

/** qemu before 9.1 misaligns the stack of x86-64 signal handlers, which ends Node with a segmentation fault. */
function handlesSignals(target: Target): boolean {
  if (target !== "linux-x64") return true;
  const { stdout } = spawnSync(targets[target].qemu.tool, ["--version"], { encoding: "utf8" });
  const [, major = "0", minor = "0"] = /version (\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) > 9 || (major === "9" && Number(minor) >= 1);
}

async function testForeign(target: Target, binary: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "keyrack-qemu-"));
  try {
    // Not with the binary: one that crashes must fail here.
    const problem = emulatorProblem(target, await baseNode(target, folder));
    if (problem !== null) {
      const packages = targets[target].qemu.debianPackages.join(" ");
      skipOrFail("qemu", `the ${target} binary`, `cannot run it (${problem}). It takes: apt-get install ${packages}`);
      return;
    }
    const launcher = join(folder, "keyrack");
    const command = commandFor(target, binary).map((word) => `'${word}'`);
    writeFileSync(launcher, `#!/bin/sh\nexec ${command.join(" ")} "$@"\n`); // exec: signals reach the program
    chmodSync(launcher, 0o755);
    const signals = handlesSignals(target);
    if (!signals) skipOrFail("qemu 9.1", "stopping by SIGTERM", "is needed to deliver signals to x86-64 programs");
    test(launcher, [SMOKE], signals ? {} : { KEYRACK_TEST_NO_SIGNALS: "yes" });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await runScript(async () => {
  const { values } = parseFlags({ options: { target: { type: "string" }, binary: { type: "string" } } });
  const { target = here } = values;
  if (!isTarget(target)) throw new ExitError(`--target is one of ${allTargets.join(", ")}`, 2);
  const standard = values.target ? () => build(target) : () => join(root, "dist/keyrack");
  const binary = values.binary ? resolve(values.binary) : standard();
  if (target === here) test(binary, [...NATIVE, SMOKE]);
  else await testForeign(target, binary);
});
