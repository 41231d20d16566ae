// The release files of a binary: dist/release/keyrack-<version>-<target>.tar.gz, an SBOM, and SHA256SUMS over all; and
// a security.txt, if KEYRACK_SECURITY_CONTACT is set to a URI for vulnerability reports.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "../src/platform/version.ts";
import { securityTxt } from "./security-txt.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const release = join(root, "dist/release");

export function writeRelease(target: string, binary: string): string[] {
  mkdirSync(release, { recursive: true });
  const name = `keyrack-${VERSION}-${target}`;
  const archive = join(release, `${name}.tar.gz`);
  const work = mkdtempSync(join(tmpdir(), "keyrack-release-"));
  try {
    const folder = join(work, name);
    mkdirSync(folder);
    cpSync(binary, join(folder, "keyrack"));
    for (const file of ["LICENSE", "README.md", "CHANGELOG.md"]) cpSync(join(root, file), join(folder, file));
    // Reproducible: fixed order, owner and times.
    const fixed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    execFileSync("tar", [...fixed, "--use-compress-program=gzip -n -9", "-C", work, "-cf", archive, name]);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  const sbom = join(release, `keyrack-${VERSION}.cdx.json`);
  writeFileSync(sbom, billOfMaterials());
  return [archive, sbom, ...writeSecurityTxt(), writeSums()];
}

function writeSecurityTxt(): string[] {
  const contact = process.env.KEYRACK_SECURITY_CONTACT;
  const path = join(release, "security.txt");
  rmSync(path, { force: true }); // removes the one of an earlier build
  if (!contact) return [];
  writeFileSync(path, securityTxt(contact, Date.now()));
  return [path];
}

/** CycloneDX of the binary's contents: the locked production dependencies, and Node itself. */
function billOfMaterials(): string {
  const args = ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only", "--omit", "dev"];
  const text = execFileSync("npm", args, { cwd: root, stdio: ["ignore", "pipe", "ignore"] }).toString();
  const document = JSON.parse(text) as { components: unknown[] };
  document.components.push({
    type: "platform",
    name: "node",
    version: process.versions.node,
    purl: `pkg:generic/node@${process.versions.node}`,
  });
  return `${JSON.stringify(document, null, 2)}\n`;
}

function writeSums(): string {
  const path = join(release, "SHA256SUMS");
  const names = readdirSync(release).filter((name) => name !== "SHA256SUMS");
  const line = (name: string): string =>
    `${createHash("sha256")
      .update(readFileSync(join(release, name)))
      .digest("hex")}  ${name}\n`;
  writeFileSync(path, names.toSorted().map(line).join(""));
  return path;
}
