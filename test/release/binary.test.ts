// What the binary needs of a machine: glibc, libstdc++ and libgcc, and nothing else. Read from Node, which becomes the
// binary, from the addons inside it, and from every binary that was built.
import { execFileSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasTool } from "../../harness/processes/tools.ts";
import { root } from "../../harness/repository.ts";
import { GLIBC_MIN } from "../../tools/release/deb.ts";

/** Of libc6, libstdc++6 and libgcc-s1. */
const LIBRARIES =
  /^(?:lib(?:c|m|dl|rt|pthread)\.so\.\d|ld-linux-(?:x86-64\.so\.2|aarch64\.so\.1)|libstdc\+\+\.so\.6|libgcc_s\.so\.1)$/;
/** Family of symbols → its newest version on a machine with that glibc and the GCC of its time (8 and 11). */
const PROGRAM: Record<string, string> = { GLIBC: "2.28", GLIBCXX: "3.4.25", CXXABI: "1.3.11", GCC: "8.0.0" };
/** The program starts without its addons, but serves nothing. */
const ADDONS: Record<string, string> = { GLIBC: GLIBC_MIN, GLIBCXX: "3.4.29", CXXABI: "1.3.13", GCC: "11.0" };

type Needs = { libraries: string[]; versions: string[] };

function needsOf(file: string): Needs {
  const args = ["--dynamic", "--version-info", "--wide", join(root, file)];
  const text = execFileSync("readelf", args, { encoding: "utf8", maxBuffer: 2 ** 28 });
  const needed = text.slice(text.indexOf("Version needs section"));
  return {
    libraries: [...text.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, name = ""]) => name),
    versions: [...new Set([...needed.matchAll(/Name: (\w+_[\w.]+)\s/g)].map(([, name = ""]) => name))],
  };
}

function problemsOf({ libraries, versions }: Needs, newest: Record<string, string>): string[] {
  const tooNew = versions.filter((name) => {
    const [family = "", version = ""] = name.split("_");
    return !newest[family] || version.localeCompare(newest[family], "en", { numeric: true }) > 0;
  });
  return [...libraries.filter((name) => !LIBRARIES.test(name)), ...tooNew];
}

const found = (pattern: string): string[] => globSync(pattern, { cwd: root });
const builds = ["dist/keyrack", "dist/linux-x64/keyrack", "dist/linux-arm64/keyrack"];
const programs = [
  ...found("node_modules/node-linux-*/bin/node"),
  ...builds.filter((file) => existsSync(join(root, file))),
];
const addons = [
  ...found("node_modules/better-sqlite3/prebuilds/linux-{x64,arm64}.node"),
  ...found("node_modules/argon2/prebuilds/linux-{x64/argon2,arm64/argon2.armv8}.glibc.node"),
];

describe.runIf(hasTool("readelf", "the binary's dynamic section"))("the binary", () => {
  it("is made of Node and two addons for each target", () => {
    expect(programs.length).toBeGreaterThanOrEqual(1);
    expect(addons).toHaveLength(4);
  });

  it.each(programs)("%s needs glibc 2.28, libstdc++ and libgcc alone", (file) => {
    const needs = needsOf(file);
    expect(needs.libraries).toContain("libstdc++.so.6");
    expect(needs.versions).toContain("GLIBC_2.28");
    expect(problemsOf(needs, PROGRAM)).toEqual([]);
  });

  it.each(addons)("%s needs no newer glibc than the Debian package asks for", (file) => {
    const needs = needsOf(file);
    expect(needs.libraries).toContain("libc.so.6");
    expect(problemsOf(needs, ADDONS)).toEqual([]);
  });

  it("would be refused with another library or a newer symbol", () => {
    const libraries = ["libc.so.6", "libssl.so.3", "libstdc++.so.6"];
    const versions = ["GLIBC_2.17", "GLIBC_2.9", "GLIBC_2.34", "GLIBCXX_3.4.25", "OPENSSL_3.0.0"];
    expect(problemsOf({ libraries, versions }, PROGRAM)).toEqual(["libssl.so.3", "GLIBC_2.34", "OPENSSL_3.0.0"]);
  });
});
