// The programs that a release needs beside Node, with the Debian package of each.
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { ExitError } from "../../src/cli/ui/output.ts";
import { here, targets } from "../sea/targets.ts";
import type { Options } from "./options.ts";

type Tool = { name: string; debianPackage: string };

/** npm fetches the Node of another platform and, with --check, the packages of a clone. */
function toolsFor({ targets: chosen, kinds, signKey, check }: Options): Tool[] {
  const needsBinary = kinds.some((kind) => kind !== "npm");
  return [
    { name: "git", debianPackage: "git" },
    { name: "tar", debianPackage: "tar" },
    { name: "gzip", debianPackage: "gzip" },
    ...(needsBinary ? chosen.map((target) => targets[target].strip) : []),
    ...(check || (needsBinary && chosen.some((target) => target !== here))
      ? [{ name: "npm", debianPackage: "npm" }]
      : []),
    // Opens the packages that the image is made of, and fetches them.
    ...(kinds.includes("oci")
      ? [
          { name: "dpkg-deb", debianPackage: "dpkg" },
          { name: "apt-get", debianPackage: "apt" },
        ]
      : []),
    ...(signKey ? [{ name: "ssh-keygen", debianPackage: "openssh-client" }] : []),
  ];
}

function isInstalled(name: string): boolean {
  return (process.env.PATH ?? "").split(":").some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export function assertTools(options: Options): void {
  const missing = toolsFor(options).filter(({ name }) => !isInstalled(name));
  if (missing.length === 0) return;
  const names = missing.map(({ name }) => name).join(", ");
  const packages = missing.map(({ debianPackage }) => debianPackage).join(" ");
  throw new ExitError(`not installed: ${names}. On Debian: apt-get install ${packages}`, 2);
}
