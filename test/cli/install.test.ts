// install.sh in a checkout whose build is a stand-in: what it writes, what it leaves alone, and what a failure leaves.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";

const SCRIPT = fileURLToPath(new URL("../../install.sh", import.meta.url));

function program(file: string, text: string): void {
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
}

/** A checkout that builds at once; everybody is root here, and systemctl writes down what it is asked. */
function checkout() {
  const temp = tempDir();
  const at = (...parts: string[]): string => join(temp.dir, ...parts);
  for (const folder of ["node_modules/.bin", "bin", "units", "dist"]) mkdirSync(at(folder), { recursive: true });
  copyFileSync(SCRIPT, at("install.sh"));
  writeFileSync(at("package-lock.json"), "{}");
  writeFileSync(at("node_modules/.package-lock.json"), "{}");
  program(at("node_modules/.bin/node"), "");
  program(at("bin/id"), "echo 0");
  program(at("bin/systemctl"), `echo "$*" >> ${at("systemctl.log")}`);
  const builds = (text: string): void =>
    program(at("bin/npm"), `printf '#!/bin/sh\\n%s\\n' '${text}' > dist/keyrack; chmod 755 dist/keyrack`);
  builds("echo 1.0.0");
  const env = { PATH: `${at("bin")}:/usr/bin:/bin`, HOME: temp.dir, KEYRACK_UNIT_DIR: at("units") };
  return {
    at,
    builds,
    unit: at("units/keyrack.service"),
    asked: () => (existsSync(at("systemctl.log")) ? readFileSync(at("systemctl.log"), "utf8") : ""),
    run: (args: string[], more: Record<string, string> = {}) => {
      const ran = spawnSync("sh", [at("install.sh"), ...args], { env: { ...env, ...more }, encoding: "utf8" });
      return { code: ran.status, said: ran.stdout + ran.stderr };
    },
    [Symbol.dispose]: () => temp[Symbol.dispose](),
  };
}

it("a new binary that does not run leaves the old one in place", () => {
  using c = checkout();
  expect(c.run(["--prefix", c.at("a")])).toMatchObject({ code: 0, said: expect.stringContaining("keyrack 1.0.0") });
  c.builds("exit 1");
  expect(c.run(["--prefix", c.at("a")])).toMatchObject({ code: 1, said: expect.stringContaining("untouched") });
  expect(readFileSync(c.at("a/bin/keyrack"), "utf8")).toContain("echo 1.0.0");
  expect(existsSync(c.at("a/bin/keyrack.new"))).toBe(false);
});

it("uninstalling one prefix leaves the unit of another alone, and neither touches data", () => {
  using c = checkout();
  mkdirSync(c.at("a/state"), { recursive: true });
  const state = { KEYRACK_STATE_DIR: c.at("a/state") };
  writeFileSync(c.at("a/state/keyrack.db"), "data");
  expect(c.run(["--prefix", c.at("a"), "--systemd"], state).code).toBe(0);
  expect(c.run(["--prefix", c.at("b")], state).code).toBe(0);
  expect(c.run(["--prefix", c.at("b"), "--uninstall"], state)).toMatchObject({ code: 0 });
  expect([existsSync(c.at("b/bin/keyrack")), existsSync(c.unit), c.asked()]).toEqual([false, true, "daemon-reload\n"]);
  expect(c.run(["--prefix", c.at("a"), "--uninstall"], state)).toMatchObject({ code: 0 });
  expect([existsSync(c.at("a/bin/keyrack")), existsSync(c.unit)]).toEqual([false, false]);
  expect(c.asked()).toContain("disable --now keyrack.service");
  expect(readFileSync(c.at("a/state/keyrack.db"), "utf8")).toBe("data");
});

it("the unit names a state directory only below /var/lib, where systemd makes it", () => {
  using c = checkout();
  expect(c.run(["--prefix", c.at("a"), "--systemd"]).code).toBe(0);
  expect(readFileSync(c.unit, "utf8")).toMatch(/^StateDirectory=keyrack$/m);
  expect(c.run(["--prefix", c.at("a"), "--systemd"], { KEYRACK_STATE_DIR: "/srv/keyrack" }).code).toBe(0);
  const unit = readFileSync(c.unit, "utf8");
  expect(unit).not.toMatch(/^StateDirectory=/m);
  expect(unit).toMatch(/^ReadWritePaths=\/srv\/keyrack$/m);
});

for (const [why, args, more] of [
  ["a prefix that a unit would read otherwise", ["--prefix", "/opt/a b", "--systemd"], {}],
  ["a state dir that a unit would read otherwise", ["--systemd"], { KEYRACK_STATE_DIR: "/srv/%h" }],
  ["a state dir that is no whole path", ["--systemd"], { KEYRACK_STATE_DIR: "data" }],
  ["--start alone", ["--start"], {}],
] as const) {
  it(`refuses ${why} before anything is built`, () => {
    using c = checkout();
    expect(c.run([...args], more).code).toBe(2);
    expect([existsSync(c.unit), existsSync(c.at("dist/keyrack"))]).toEqual([false, false]);
  });
}
