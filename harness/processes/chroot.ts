// Other roots for tests of packages, in a mount namespace that ends with the process: nothing to clean up.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { hasTool, isRoot, skipOrFail } from "./tools.ts";

const NAMESPACE = ["--mount", "--propagation", "private"];
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** For `describe.runIf`. A container without privileges has root, but cannot mount. */
export function canChroot(tests: string): boolean {
  if (!isRoot(tests) || !hasTool("unshare", tests)) return false;
  const mount = ["sh", "-c", "mount -t tmpfs tmpfs /mnt"];
  if (spawnSync("unshare", [...NAMESPACE, ...mount], { stdio: "ignore" }).status === 0) return true;
  skipOrFail("mount", tests, "is not permitted here");
  return false;
}

/** This machine's files with a writable layer of memory above them; its services and a Keyrack installed here are not
 * visible. `$2`: as /mnt. */
const DEBIAN = `
mount -t tmpfs tmpfs "$1/root"
mkdir "$1/root/upper" "$1/root/work" "$1/root/merged"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/root/upper,workdir=$1/root/work" "$1/root/merged"
cd "$1/root/merged"
rm -rf run/systemd usr/local/bin/keyrack
mount -t proc proc proc
mount --bind /dev dev
mount --bind "$2" mnt
exec chroot . /bin/sh -ec "$3"`;

type ScriptResult = { status: number | null; output: string };

/** Runs a script as root on a copy of this Debian that is gone afterwards. `files` is mounted as /mnt. */
export function runInDebian(dir: string, script: string, files = dir): ScriptResult {
  mkdirSync(join(dir, "root"), { recursive: true });
  const args = [...NAMESPACE, "sh", "-ec", DEBIAN, "sh", dir, files, script];
  const env = { PATH, LC_ALL: "C.UTF-8", DEBIAN_FRONTEND: "noninteractive" };
  const ran = spawnSync("unshare", args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  return { status: ran.status, output: ran.stdout + ran.stderr };
}

/** As an engine would start it: read-only root, /proc and /dev, one volume, no privileges. `$1`: root, `$2`: volume. */
const CONTAINER = `
mkdir -p "$1/proc" "$1/dev"
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
mount --bind "$2" "$1/data"
mount -o remount,bind,ro "$1"
user=$3
root=$1
shift 3
exec /usr/sbin/chroot --userspec="$user" --groups="" "$root" "$@"`;

export type Root = { dir: string; volume: string; user: string; env: Record<string, string> };

/** Starts a program in another root. Its process id is the program's own. */
export function startInRoot({ dir, volume, user, env }: Root, command: string[]): ChildProcess {
  const args = [...NAMESPACE, "/bin/sh", "-ec", CONTAINER, "sh", dir, volume, user, ...command];
  return spawn("unshare", args, { env, stdio: ["ignore", "pipe", "pipe"] });
}
