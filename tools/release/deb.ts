// The Debian package. dpkg-deb packs a folder; owner, modes and times are fixed here, so that the same input gives the same
// bytes wherever it is built.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { buildFullProgram } from "../../src/cli/command-table.ts";
import { completionScript } from "../../src/cli/commands/completion.ts";
import { settingsTable } from "../../src/config/settings.ts";
import type { Target } from "../sea/targets.ts";
import { architectures } from "./architectures.ts";
import { systemdUnit } from "./unit.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Of the addons inside the binary; Node alone runs with 2.28. */
export const GLIBC_MIN = "2.34";
const SCRIPTS = ["postinst", "prerm", "postrm"];
const SETTINGS_FILE = "etc/keyrack/keyrack.env";
const DOCS = "usr/share/doc/keyrack";

export type DebInput = {
  /** Path of the binary. */
  binary: string;
  target: Target;
  version: string;
  /** Path of the package to write. */
  out: string;
  /** Time of every file, in seconds. */
  epoch: number;
  /** Text of THIRD_PARTY_NOTICES.txt. */
  notices: string;
};

export async function buildDeb({ binary, target, version, out, epoch, notices }: DebInput): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "keyrack-deb-"));
  try {
    const tree = new Tree(join(work, "keyrack"));
    tree.copy("usr/bin/keyrack", binary, 0o755);
    tree.write("lib/systemd/system/keyrack.service", systemdUnit("/usr/bin/keyrack"));
    tree.write(SETTINGS_FILE, settingsFile(), 0o640);
    const program = await buildFullProgram();
    tree.write("usr/share/bash-completion/completions/keyrack", `${completionScript("bash", program)}\n`);
    tree.write("usr/share/zsh/vendor-completions/_keyrack", `${completionScript("zsh", program)}\n`);
    tree.write("usr/share/fish/vendor_completions.d/keyrack.fish", `${completionScript("fish", program)}\n`);
    tree.copy(`${DOCS}/copyright`, join(root, "deploy/debian/copyright"));
    tree.copy(`${DOCS}/README.md`, join(root, "README.md"));
    tree.write(`${DOCS}/changelog.gz`, gzipSync(readFileSync(join(root, "CHANGELOG.md")), { level: 9 }));
    tree.write(`${DOCS}/THIRD_PARTY_NOTICES.txt.gz`, gzipSync(notices, { level: 9 }));
    const sums = tree.md5sums();
    const kilobytes = tree.kilobytes();
    tree.write("DEBIAN/control", control(version, architectures[target], kilobytes));
    tree.write("DEBIAN/conffiles", `/${SETTINGS_FILE}\n`);
    tree.write("DEBIAN/md5sums", sums);
    for (const name of SCRIPTS) tree.copy(`DEBIAN/${name}`, join(root, "deploy/debian", name), 0o755);
    tree.setTimes(epoch);
    mkdirSync(dirname(out), { recursive: true });
    await pack(tree.root, out, epoch);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function pack(folder: string, out: string, epoch: number): Promise<void> {
  const args = ["--root-owner-group", "-Zgzip", "-z6", "--build", folder, out];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch) };
  await promisify(execFile)("dpkg-deb", args, { env });
}

function control(version: string, architecture: string, kilobytes: number): string {
  return `Package: keyrack
Version: ${version.replace("-", "~")}
Architecture: ${architecture}
Maintainer: Keyrack maintainers <keyrack@users.noreply.github.com>
Installed-Size: ${kilobytes}
Depends: libc6 (>= ${GLIBC_MIN}), libstdc++6, libgcc-s1, adduser
Suggests: postgresql-client
Section: net
Priority: optional
Homepage: https://github.com/keyrack/keyrack
Description: self-hosted control plane for API keys
 Issues, verifies, limits, revokes, rotates and accounts for the API keys of your customers, with an audit log that can
 be verified offline. One process on SQLite, or several on PostgreSQL.
`;
}

/** Every setting, commented out. The unit sets the data dir, the only place it may write to. */
function settingsFile(): string {
  const settings = Object.values(settingsTable).filter(({ env }) => env !== "KEYRACK_DATA_DIR");
  const blocks = settings.map(({ env, defaultText, description }) => `# ${description}\n#${env}=${defaultText}\n`);
  return `# Settings of keyrack.service. Remove the # in front of a name to set it, then: systemctl restart keyrack\n\n${blocks.join("\n")}`;
}

/** A folder to pack. Modes are set explicitly, because the umask would show in the package. */
class Tree {
  readonly root: string;
  constructor(root: string) {
    this.root = root;
    this.#folder(".");
  }

  write(path: string, content: string | Uint8Array, mode = 0o644): void {
    this.#folder(dirname(path));
    writeFileSync(join(this.root, path), content);
    chmodSync(join(this.root, path), mode);
  }

  copy(path: string, from: string, mode = 0o644): void {
    this.#folder(dirname(path));
    copyFileSync(from, join(this.root, path));
    chmodSync(join(this.root, path), mode);
  }

  #folder(path: string): void {
    if (path !== ".") this.#folder(dirname(path));
    mkdirSync(join(this.root, path), { recursive: true });
    chmodSync(join(this.root, path), 0o755);
  }

  /** Paths below the root, folders included, in a stable order. */
  #paths(): string[] {
    return readdirSync(this.root, { recursive: true, encoding: "utf8" }).toSorted();
  }

  #files(): string[] {
    return this.#paths().filter((path) => statSync(join(this.root, path)).isFile());
  }

  /** What `dpkg --verify` compares. Settings are left out, because they are there to be changed. */
  md5sums(): string {
    const sum = (path: string): string =>
      createHash("md5")
        .update(readFileSync(join(this.root, path)))
        .digest("hex");
    const files = this.#files().filter((path) => path !== SETTINGS_FILE);
    return files.map((path) => `${sum(path)}  ${path}\n`).join("");
  }

  kilobytes(): number {
    const sizes = this.#paths().map((path) => {
      const found = statSync(join(this.root, path));
      return found.isFile() ? Math.ceil(found.size / 1024) : 1;
    });
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  setTimes(epoch: number): void {
    for (const path of [...this.#paths(), "."]) utimesSync(join(this.root, path), epoch, epoch);
  }
}
