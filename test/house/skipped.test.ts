// Tests that are left out are named at the end of a run, or fail it.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { skipOrFail } from "../../harness/processes/tools.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

it("tests that are skipped are listed in the file that the run names, and fail a run that requires them", () => {
  using temp = tempDir();
  const list = join(temp.dir, "skipped");
  const warn = vi.spyOn(console, "error").mockReturnValue();
  vi.stubEnv("KEYRACK_TEST_SKIPPED", list);
  vi.stubEnv("KEYRACK_TEST_REQUIRE", "postgres,mount");
  expect(() => skipOrFail("mount", "packages", "is not permitted here")).toThrow("KEYRACK_TEST_REQUIRE names mount");
  expect(existsSync(list)).toBe(false);
  skipOrFail("kubectl", "manifests");
  expect(readFileSync(list, "utf8")).toBe("manifests: kubectl is not installed\n");
  expect(warn).toHaveBeenCalledOnce();
});
