// What a binary knows about its own build. A checkout is not a build: it has no commit and is not a release.
import * as sea from "node:sea";
import { readText } from "./packaged-files.ts";

export type BuildInfo = {
  /** 40 hexadecimal digits; null if the files were not those of a commit. */
  commit: string | null;
  /** Whether it was made by `npm run release`. */
  release: boolean;
};

export function buildInfo(): BuildInfo {
  return sea.isSea() ? (JSON.parse(readText("build.json")) as BuildInfo) : { commit: null, release: false };
}
