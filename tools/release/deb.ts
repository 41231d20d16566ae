// The Debian package, written here and not by dpkg-deb: order, owner, modes and times are fixed, and the compression
// depends only on Node, so that the same input gives the same bytes wherever it is built.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzip, gzipSync } from "node:zlib";
import { buildFullProgram } from "../../src/cli/command-table.ts";
import { completionScript } from "../../src/cli/commands/completion.ts";
import { envOf, settingNames, settingsTable } from "../../src/config/settings.ts";
import { root, type Target } from "../sea/targets.ts";
import { architectures } from "./architectures.ts";
import { readDocument } from "./links.ts";
import { withFolders, writeTar, type Entry } from "./tar.ts";
import { systemdUnit } from "./unit.ts";

/** Of the addons inside the binary; Node alone runs with 2.28. */
export const GLIBC_MIN = "2.34";
const SCRIPTS = ["postinst", "prerm", "postrm"];
const SETTINGS_FILE = "etc/keyrack/keyrack.env";
const DOCS = "usr/share/doc/keyrack";

type File = Entry & { content: Uint8Array };

type DebInput = {
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
  const program = await buildFullProgram();
  const files = [
    file("usr/bin/keyrack", readFileSync(binary), 0o755),
    file("lib/systemd/system/keyrack.service", systemdUnit("/usr/bin/keyrack")),
    file(SETTINGS_FILE, settingsFile(), 0o640),
    file("usr/share/bash-completion/completions/keyrack", `${completionScript("bash", program)}\n`),
    file("usr/share/zsh/vendor-completions/_keyrack", `${completionScript("zsh", program)}\n`),
    file("usr/share/fish/vendor_completions.d/keyrack.fish", `${completionScript("fish", program)}\n`),
    file(`${DOCS}/copyright`, template("copyright")),
    file(`${DOCS}/README.md`, readDocument("README.md", version)),
    file(`${DOCS}/changelog.gz`, gzipSync(readDocument("CHANGELOG.md", version), { level: 9 })),
    file(`${DOCS}/THIRD_PARTY_NOTICES.txt.gz`, gzipSync(notices, { level: 9 })),
  ];
  const tree = withFolders(files);
  const about = [
    file("control", control(version, architectures[target], kilobytes(tree))),
    file("conffiles", `/${SETTINGS_FILE}\n`),
    file("md5sums", md5sums(files)),
    ...SCRIPTS.map((name) => file(name, template(name), 0o755)),
  ];
  const members = {
    "debian-binary": Buffer.from("2.0\n"),
    "control.tar.gz": await pack(about, epoch),
    "data.tar.gz": await pack(tree, epoch),
  };
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, writeAr(members, epoch));
}

const template = (name: string): Buffer => readFileSync(join(root, "deploy/debian", name));

const file = (path: string, content: string | Uint8Array, mode = 0o644): File => ({
  path,
  kind: "file",
  mode,
  content: typeof content === "string" ? Buffer.from(content) : content,
});

/** With the paths that dpkg-deb writes: `./`, `./usr/`, `./usr/bin/`, … */
function pack(entries: readonly Entry[], epoch: number): Promise<Buffer> {
  const top: Entry = { path: ".", kind: "folder", mode: 0o755 };
  const all = [top, ...entries.map((entry) => ({ ...entry, path: `./${entry.path}` }))];
  return promisify(gzip)(writeTar(all, epoch), { level: 6 });
}

/** An archive of `ar`: before each member a header of 60 bytes, at an even offset. The members keep their order. */
function writeAr(members: Record<string, Buffer>, epoch: number): Buffer {
  const parts = Object.entries(members).flatMap(([name, content]) => {
    const owner = "0".padEnd(6).repeat(2);
    const fields = [name.padEnd(16), String(epoch).padEnd(12), owner, "100644".padEnd(8)];
    const header = `${fields.join("")}${String(content.length).padEnd(10)}\u0060\n`;
    return [Buffer.from(header), content, Buffer.from(content.length % 2 === 0 ? "" : "\n")];
  });
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}

/** What `dpkg --verify` compares. Settings are left out, because they are there to be changed. */
function md5sums(files: readonly File[]): string {
  const compared = files.filter(({ path }) => path !== SETTINGS_FILE).toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return compared.map(({ path, content }) => `${createHash("md5").update(content).digest("hex")}  ${path}\n`).join("");
}

/** As dpkg-deb counts: files rounded up, and one for each folder. */
function kilobytes(tree: readonly Entry[]): number {
  const sizes = tree.map(({ content }) => (content ? Math.ceil(content.length / 1024) : 1));
  return sizes.reduce((sum, size) => sum + size, 0);
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
  const names = settingNames.filter((name) => name !== "data_dir");
  const blocks = names.map((name) => {
    const { defaultText, description } = settingsTable[name];
    return `# ${description}\n#${envOf(name)}=${defaultText}\n`;
  });
  return `# Settings of keyrack.service. Remove the # in front of a name to set it, then: systemctl restart keyrack\n\n${blocks.join("\n")}`;
}
