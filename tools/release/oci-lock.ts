// npm run oci:lock   Writes tools/oci.lock.json: the newest packages of the image's base, as apt's mirrors have them.
// apt itself checks the signatures, in a state folder of its own, so that this machine needs no foreign architecture.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { architectures, type Architecture } from "./architectures.ts";
import { lockFile, type Lock, type LockedPackage } from "./debian.ts";

/** gcc-12-base holds the licences of the two libraries of GCC. */
const PACKAGES = ["ca-certificates", "gcc-12-base", "libc6", "libgcc-s1", "libstdc++6", "netbase", "tzdata"];

function newestPackages(architecture: Architecture, work: string): LockedPackage[] {
  const state = join(work, architecture);
  for (const folder of ["lists/partial", "cache/archives/partial"]) mkdirSync(join(state, folder), { recursive: true });
  writeFileSync(join(state, "status"), "");
  const options = {
    "APT::Architecture": architecture,
    "APT::Architectures": architecture,
    "APT::Sandbox::User": "root",
    "Dir::State": state,
    "Dir::State::lists": join(state, "lists"),
    "Dir::State::status": join(state, "status"),
    "Dir::Cache": join(state, "cache"),
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  execFileSync("apt-get", [...flags, "update"], { stdio: ["ignore", "ignore", "inherit"] });
  return PACKAGES.map((name) => {
    const text = execFileSync("apt-cache", [...flags, "show", "--no-all-versions", name], { encoding: "utf8" });
    const field = (wanted: string): string => {
      const value = new RegExp(`^${wanted}: (.*)$`, "m").exec(text)?.[1];
      if (!value) throw new Error(`apt does not know the ${wanted} of ${name} for ${architecture}`);
      return value;
    };
    return {
      package: name,
      version: field("Version"),
      architecture: field("Architecture") as LockedPackage["architecture"],
      sha256: field("SHA256"),
      path: field("Filename"),
    };
  });
}

const work = mkdtempSync(join(tmpdir(), "keyrack-lock-"));
try {
  const all = Object.values(architectures).flatMap((architecture) => newestPackages(architecture, work));
  // A package for all architectures is the same in each.
  const unique = new Map(all.map((each) => [`${each.package} ${each.architecture}`, each]));
  const packages = [...unique].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
  const debian = /^VERSION_ID="?(\d+)/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1] ?? "";
  writeFileSync(lockFile, `${JSON.stringify({ debian, packages } satisfies Lock, null, 2)}\n`);
  for (const { package: name, version, architecture } of packages) console.log(`${name} ${version} ${architecture}`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
