// install.sh in a checkout with a fake build: what it installs, what it leaves alone, and what remains after a failure.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { systemdUnit } from "../../tools/release/unit.ts";

const repository = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

function program(file: string, text: string): void {
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
}

/** A checkout with a fake build, in which the user is root and systemctl logs its arguments. */
function checkout() {
  const temp = tempDir();
  const at = (...parts: string[]): string => join(temp.dir, ...parts);
  for (const folder of ["node_modules/.bin", "bin", "units", "dist", "deploy"])
    mkdirSync(at(folder), { recursive: true });
  for (const file of ["install.sh", "deploy/keyrack.service.in"]) copyFileSync(repository(file), at(file));
  writeFileSync(at("package-lock.json"), "{}");
  writeFileSync(at("node_modules/.package-lock.json"), "{}");
  program(at("node_modules/.bin/node"), "");
  program(at("bin/id"), "echo 0");
  program(at("bin/runuser"), "");
  program(at("bin/systemctl"), `echo "$*" >> ${at("systemctl.log")}`);
  const builds = (text: string): void =>
    program(at("bin/npm"), `printf '#!/bin/sh\\n%s\\n' '${text}' > dist/keyrack; chmod 755 dist/keyrack`);
  builds("echo 1.0.0");
  const env = { PATH: `${at("bin")}:/usr/bin:/bin`, HOME: temp.dir, KEYRACK_UNIT_DIR: at("units") };
  return {
    at,
    builds,
    unit: at("units/keyrack.service"),
    systemctlLog: () => (existsSync(at("systemctl.log")) ? readFileSync(at("systemctl.log"), "utf8") : ""),
    run: (args: string[], more: Record<string, string | undefined> = {}) => {
      const ran = spawnSync("sh", [at("install.sh"), ...args], { env: { ...env, ...more }, encoding: "utf8" });
      return { code: ran.status, output: ran.stdout + ran.stderr };
    },
    [Symbol.dispose]: () => temp[Symbol.dispose](),
  };
}

it("keeps the old binary if the new one does not run", () => {
  using c = checkout();
  expect(c.run(["--prefix", c.at("a")])).toMatchObject({ code: 0, output: expect.stringContaining("keyrack 1.0.0") });
  c.builds("exit 1");
  expect(c.run(["--prefix", c.at("a")])).toMatchObject({ code: 1, output: expect.stringContaining("untouched") });
  expect(readFileSync(c.at("a/bin/keyrack"), "utf8")).toContain("echo 1.0.0");
  expect(existsSync(c.at("a/bin/keyrack.new"))).toBe(false);
});

it("uninstalls one prefix without touching another's unit or any data", () => {
  using c = checkout();
  mkdirSync(c.at("a/state"), { recursive: true });
  const state = { KEYRACK_STATE_DIR: c.at("a/state") };
  writeFileSync(c.at("a/state/keyrack.db"), "data");
  expect(c.run(["--prefix", c.at("a"), "--systemd"], state).code).toBe(0);
  expect(c.run(["--prefix", c.at("b")], state).code).toBe(0);
  expect(c.run(["--prefix", c.at("b"), "--uninstall"], state)).toMatchObject({ code: 0 });
  expect([existsSync(c.at("b/bin/keyrack")), existsSync(c.unit), c.systemctlLog()]).toEqual([
    false,
    true,
    "daemon-reload\n",
  ]);
  expect(c.run(["--prefix", c.at("a"), "--uninstall"], state)).toMatchObject({ code: 0 });
  expect([existsSync(c.at("a/bin/keyrack")), existsSync(c.unit)]).toEqual([false, false]);
  expect(c.systemctlLog()).toContain("disable --now keyrack.service");
  expect(readFileSync(c.at("a/state/keyrack.db"), "utf8")).toBe("data");
});

it("writes the unit of a release, with its own binary", () => {
  using c = checkout();
  expect(c.run(["--prefix", c.at("a"), "--systemd"]).code).toBe(0);
  expect(readFileSync(c.unit, "utf8") === systemdUnit(c.at("a/bin/keyrack"))).toBe(true);
});

it("sets StateDirectory only below /var/lib, where systemd creates it", () => {
  using c = checkout();
  expect(c.run(["--prefix", c.at("a"), "--systemd"]).code).toBe(0);
  expect(readFileSync(c.unit, "utf8")).toMatch(/^StateDirectory=keyrack$/m);
  expect(c.run(["--prefix", c.at("a"), "--systemd"], { KEYRACK_STATE_DIR: "/srv/keyrack" }).code).toBe(0);
  const unit = readFileSync(c.unit, "utf8");
  expect(unit).not.toMatch(/^StateDirectory=/m);
  expect(unit).toMatch(/^ReadWritePaths=\/srv\/keyrack$/m);
  expect(unit.includes("/var/lib")).toBe(false);
});

it("keeps the data dir of its unit, unless another is named", () => {
  using c = checkout();
  const args = ["--prefix", c.at("a"), "--systemd"];
  expect(c.run(args, { KEYRACK_STATE_DIR: "/srv/keyrack" }).code).toBe(0);
  const first = readFileSync(c.unit, "utf8");
  expect(c.run(args).code).toBe(0);
  expect(readFileSync(c.unit, "utf8") === first).toBe(true);
  expect(c.run(args, { KEYRACK_STATE_DIR: "/var/lib/keyrack" }).code).toBe(0);
  expect(readFileSync(c.unit, "utf8") === systemdUnit(c.at("a/bin/keyrack"))).toBe(true);
  writeFileSync(c.unit, first.replace(c.at("a/bin/keyrack"), "/usr/bin/keyrack"));
  expect(c.run(args).code).toBe(0);
  expect(readFileSync(c.unit, "utf8") === systemdUnit(c.at("a/bin/keyrack"))).toBe(true);
});

for (const HOME of [undefined, ""]) {
  it(`needs a prefix ${HOME === undefined ? "without HOME" : "where HOME is empty"}, except as root`, () => {
    using c = checkout();
    program(c.at("bin/id"), "echo 1000");
    const output = "install.sh: HOME is not set. Choose a folder with --prefix.\n";
    expect(c.run([], { HOME })).toEqual({ code: 2, output });
    expect(c.run(["--prefix", c.at("a")], { HOME }).code).toBe(0);
  });
}

for (const [why, args, more] of [
  ["a prefix with characters that systemd interprets", ["--prefix", "/opt/a b", "--systemd"], {}],
  ["a state dir with characters that systemd interprets", ["--systemd"], { KEYRACK_STATE_DIR: "/srv/%h" }],
  ["a relative state dir", ["--systemd"], { KEYRACK_STATE_DIR: "data" }],
  ["a prefix that the unit hides", ["--prefix", "/home/me/.local", "--systemd"], {}],
  ["--start without --systemd", ["--start"], {}],
] as const) {
  it(`rejects ${why} before it builds anything`, () => {
    using c = checkout();
    expect(c.run([...args], more).code).toBe(2);
    expect([existsSync(c.unit), existsSync(c.at("dist/keyrack"))]).toEqual([false, false]);
  });
}
