// The platforms that a binary is built for. Each is built on the other as well as on itself: the programs named here
// work on files of the target, whatever machine they run on.
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export const targets = {
  "linux-x64": {
    strip: { name: "x86_64-linux-gnu-strip", debianPackage: "binutils-x86-64-linux-gnu" },
    qemu: {
      tool: "qemu-x86_64-static",
      libraries: "/usr/x86_64-linux-gnu",
      debianPackages: ["qemu-user-static", "libc6-amd64-cross", "libstdc++6-amd64-cross", "libgcc-s1-amd64-cross"],
    },
    argon2: "linux-x64/argon2.glibc.node",
  },
  "linux-arm64": {
    strip: { name: "aarch64-linux-gnu-strip", debianPackage: "binutils-aarch64-linux-gnu" },
    qemu: {
      tool: "qemu-aarch64-static",
      libraries: "/usr/aarch64-linux-gnu",
      debianPackages: ["qemu-user-static", "libc6-arm64-cross", "libstdc++6-arm64-cross", "libgcc-s1-arm64-cross"],
    },
    argon2: "linux-arm64/argon2.armv8.glibc.node",
  },
} as const;

export type Target = keyof typeof targets;

export const allTargets = Object.keys(targets) as Target[];

/** This machine's platform, which may be none of the targets. */
export const here = `${process.platform}-${process.arch}`;

export const isTarget = (name: string): name is Target => Object.hasOwn(targets, name);

/** The command that runs a program of the target on this machine. */
export function commandFor(target: Target, program: string): [string, ...string[]] {
  const { tool, libraries } = targets[target].qemu;
  return target === here ? [program] : [tool, "-L", libraries, program];
}
