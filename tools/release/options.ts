// The flags of npm run release.
import { resolve } from "node:path";
import { ExitError } from "../../src/cli/ui/output.ts";
import { parseFlags } from "../script.ts";
import { allTargets, isTarget, root, type Target } from "../sea/targets.ts";

const PACKAGE_KINDS = ["tar", "deb", "oci", "npm"] as const;
export type PackageKind = (typeof PACKAGE_KINDS)[number];

export type Options = {
  targets: Target[];
  kinds: PackageKind[];
  out: string;
  signKey: string | null;
  /** The allowed_signers file: the repository's release-keys, or a fork's own. */
  keysFile: string;
  check: boolean;
  /** Unreleased changes, under a version that names the commit. */
  snapshot: boolean;
};

const isKind = (name: string): name is PackageKind => PACKAGE_KINDS.some((kind) => kind === name);

/** The chosen values in the order of the table, without repetitions; all of them if none was chosen. */
function chosen<T extends string>(
  flag: string,
  all: readonly T[],
  given: string[],
  known: (name: string) => name is T,
): T[] {
  const unknown = given.find((name) => !known(name));
  if (unknown !== undefined) throw new ExitError(`${flag} is one of ${all.join(", ")}, not ${unknown}`, 2);
  return given.length === 0 ? [...all] : all.filter((name) => given.includes(name));
}

export function parseOptions(args: string[]): Options {
  const { values } = parseFlags({
    args,
    options: {
      target: { type: "string", multiple: true, default: [] },
      only: { type: "string", multiple: true, default: [] },
      out: { type: "string", default: "dist/release" },
      "sign-key": { type: "string" },
      "own-keys": { type: "string" },
      check: { type: "boolean", default: false },
      snapshot: { type: "boolean", default: false },
    },
  });
  return {
    targets: chosen("--target", allTargets, values.target, isTarget),
    kinds: chosen("--only", PACKAGE_KINDS, values.only, isKind),
    out: resolve(values.out),
    signKey: values["sign-key"] === undefined ? null : resolve(values["sign-key"]),
    keysFile: resolve(values["own-keys"] ?? resolve(root, "release-keys")),
    check: values.check,
    snapshot: values.snapshot,
  };
}
