// Every place that holds Keyrack's version: package.json has it, all others repeat it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** The pattern matches exactly the version. */
type Place = { file: string; pattern: RegExp };

const FIXED: Place[] = [
  { file: "package.json", pattern: /(?<=^ {2}"version": ")[^"]+/gm },
  { file: "package-lock.json", pattern: /(?<="name": "keyrack",\n\s*"version": ")[^"]+/g },
  { file: "src/platform/version.ts", pattern: /(?<=\bVERSION = ")[^"]+/g },
  { file: "src/sdk/version.ts", pattern: /(?<=\bSDK_VERSION = ")[^"]+/g },
  { file: "README.md", pattern: /(?<=^VERSION=).+/gm },
  { file: "test/golden/openapi.json", pattern: /(?<="title": "Keyrack",\n\s*"version": ")[^"]+/g },
];

/** Tags of our image, and the labels that repeat them, wherever they are in a deployment file. */
const DEPLOYED = /(?<=\bkeyrack:|\bnewTag: *["']?|\bapp\.kubernetes\.io\/version: *["']?)(?:v?\d+\.\d[\w.+-]*|latest)/g;
const SDK_RANGE = /(?<="@keyrack\/sdk": "\^)[^"]+/g;

function filesIn(root: string, folder: string): string[] {
  if (!existsSync(join(root, folder))) return [];
  const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  return files.map(({ parentPath, name }) => relative(root, join(parentPath, name))).toSorted();
}

/** Places with their files' texts. */
function readPlaces(root: string): (Place & { text: string })[] {
  const examples = filesIn(root, "examples").filter((file) => file.endsWith("/package.json"));
  const all = [
    ...FIXED,
    ...filesIn(root, "deploy").map((file) => ({ file, pattern: DEPLOYED })),
    ...examples.map((file) => ({ file, pattern: SDK_RANGE })),
  ];
  return all.map((place) => ({ ...place, text: readFileSync(join(root, place.file), "utf8") }));
}

/** In README.md until a release has the packages that it installs: 0.1.0 has none. */
export const PLACEHOLDER = "X.Y.Z";
/** What is true until then, and what replaces it. */
const UNTIL_RELEASED = [
  { file: "README.md", text: /^\*\*This page describes the main branch, .*\n\n/m, released: "" },
  { file: "README.md", text: "**From a release** (after 0.1.0).", released: "**From a release.**" },
  { file: "docs/sdk.md", text: /, from the version after 0\.1\.0 on\. Until that is released, .*/, released: "." },
];

/** Each version found, with its file. A fixed place without one is listed as "none". */
export function versionsIn(root: string): { file: string; version: string }[] {
  return readPlaces(root).flatMap(({ file, pattern, text }) => {
    const found: string[] = text.match(pattern) ?? [];
    const required = FIXED.some((place) => place.file === file);
    return (required && found.length === 0 ? ["none"] : found).map((version) => ({ file, version }));
  });
}

/** The files that hold the version, with the texts they get. */
export function withVersion(root: string, version: string): Map<string, string> {
  const texts = new Map(readPlaces(root).map(({ file, pattern, text }) => [file, text.replace(pattern, version)]));
  for (const { file, text, released } of UNTIL_RELEASED) {
    const before = texts.get(file) ?? readFileSync(join(root, file), "utf8");
    texts.set(file, before.replace(text, released));
  }
  return texts;
}
