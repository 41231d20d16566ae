// Documents that leave the repository: their relative links lead to the repository's page of the same version.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "../sea/targets.ts";

const REPOSITORY = "https://github.com/keyrack/keyrack";
/** Code is matched first, and left alone. */
const LINK = /^```[\s\S]*?^```|`[^`\n]*`|(!?)(\[[^\]]*\]\()([^)\s]+)(?=\))/gm;

/** The tag of a release, the commit of a snapshot. */
function refOf(version: string): string {
  const [, commit] = version.split("-dev.");
  if (commit === undefined) return `v${version}`;
  return commit === "modified" ? "main" : commit;
}

/** `path`: where the text is in the repository. */
export function absoluteLinks(markdown: string, path: string, version: string): string {
  return markdown.replaceAll(LINK, (whole: string, image?: string, text?: string, target?: string) => {
    if (text === undefined || target === undefined || /^(?:#|[a-z]+:)/.test(target)) return whole;
    const [, file = "", anchor = ""] = /^([^#]*)(.*)$/.exec(target) ?? [];
    return `${image}${text}${REPOSITORY}/${image ? "raw" : "blob"}/${refOf(version)}/${join(dirname(path), file)}${anchor}`;
  });
}

/** A document of the repository, to be read elsewhere. */
export const readDocument = (path: string, version: string): string =>
  absoluteLinks(readFileSync(join(root, path), "utf8"), path, version);
