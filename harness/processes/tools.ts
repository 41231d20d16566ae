// Programs of the machine that some tests need. Without one its tests are skipped with a warning, or fail when
// KEYRACK_TEST_REQUIRE names it. KEYRACK_TEST_SKIPPED names a file that lists what was skipped, for the end of a long
// run.
import { spawnSync } from "node:child_process";
import { appendFileSync } from "node:fs";

/** For `describe.runIf(hasTool("nginx", "the gateway behind nginx"))`. */
export function hasTool(name: string, tests: string): boolean {
  if (spawnSync("sh", ["-c", `command -v ${name}`], { stdio: "ignore" }).status === 0) return true;
  skipOrFail(name, tests);
  return false;
}

/** Files of other users and other roots can only be made by root. */
export function isRoot(tests: string): boolean {
  if (process.getuid?.() === 0) return true;
  skipOrFail("root", tests, "is not the user of this run");
  return false;
}

/** Reports tests that are left out. Throws when this run requires them. */
export function skipOrFail(name: string, tests: string, reason = "is not installed"): void {
  if ((process.env.KEYRACK_TEST_REQUIRE ?? "").split(/[\s,]+/).includes(name))
    throw new Error(`KEYRACK_TEST_REQUIRE names ${name}, which ${reason}`);
  console.error(`!!! SKIPPED: ${name} ${reason}; every test of ${tests} is left out.`);
  const list = process.env.KEYRACK_TEST_SKIPPED;
  if (list) appendFileSync(list, `${tests}: ${name} ${reason}\n`);
}
