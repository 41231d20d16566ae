// The base layer of the image: the libraries that the binary needs, certificates, time zones and the files that name
// them, out of Debian packages. No shell, no package manager.
import type { Architecture } from "./architectures.ts";
import { openPackage, readLock, type DebianPackage } from "./debian.ts";
import { withFolders, writeTar, type Entry } from "./tar.ts";

export const USER = 4747;

/**
 * What no program in the image reads: documents except licences, translations, converters of character sets (Node has
 * its own), certificates one by one. Programs of these packages are shell scripts.
 */
const LEFT_OUT = [
  /^usr\/share\/doc\/[^/]+\/(?!copyright$)/,
  /^usr\/share\/(?:man|locale|lintian|bug|gcc|gdb|ca-certificates)\//,
  /^usr\/lib\/[^/]+\/gconv\//,
  /^etc\/ca-certificates/,
  /^(?:usr\/)?s?bin\//,
];
const CERTIFICATE = /^usr\/share\/ca-certificates\/mozilla\/.*\.crt$/;

export async function baseLayer(architecture: Architecture): Promise<Buffer> {
  const { debian, packages } = readLock();
  const locked = packages.filter((each) => each.architecture === architecture || each.architecture === "all");
  const opened = await Promise.all(locked.map(openPackage));
  const files = opened.flatMap(({ entries }) => entries).filter(({ kind }) => kind !== "folder");
  const kept = files.filter(({ path }) => !LEFT_OUT.some((pattern) => pattern.test(path)));
  const made = [...systemFiles(debian), certificateBundle(files), ...opened.map(packageRecord)];
  // Time 0: the layer is the same in every release that has the same packages, and need not be fetched again.
  return writeTar(withFolders([...kept.map((entry) => ({ ...entry, owner: 0 })), ...made]), 0);
}

const text = (path: string, content: string): Entry => ({
  path,
  kind: "file",
  mode: 0o644,
  content: Buffer.from(content),
});

function systemFiles(debian: string): Entry[] {
  return [
    text("etc/passwd", `root:x:0:0:root:/root:/sbin/nologin\nkeyrack:x:${USER}:${USER}::/data:/sbin/nologin\n`),
    text("etc/group", `root:x:0:\nkeyrack:x:${USER}:\n`),
    text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    // Scanners look up vulnerabilities by the release and by the records of packages.
    text("etc/os-release", `NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="${debian}"\n`),
    { path: "tmp", kind: "folder", mode: 0o1777 },
    // A new volume takes over its owner and mode.
    { path: "data", kind: "folder", mode: 0o700, owner: USER },
  ];
}

/** What update-ca-certificates writes: all of them in one file. */
function certificateBundle(files: readonly Entry[]): Entry {
  const certificates = files
    .filter(({ path }) => CERTIFICATE.test(path))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
    .map(({ content = [] }) => `${Buffer.from(content).toString("utf8").trim()}\n`);
  if (certificates.length === 0) throw new Error("ca-certificates holds no certificate");
  return text("etc/ssl/certs/ca-certificates.crt", certificates.join(""));
}

const packageRecord = ({ name, control }: DebianPackage): Entry => text(`var/lib/dpkg/status.d/${name}`, control);
