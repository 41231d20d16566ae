// npm run release -- [--target linux-x64|linux-arm64]… [--only tar|deb|oci|npm]… [--out DIR] [--sign-key FILE]
// [--own-keys FILE] [--check] [--snapshot]: the files of a release, in dist/release. docs/releases.md describes them.
import { runScript } from "../script.ts";
import { makeCheckedRelease } from "./check.ts";
import { parseOptions } from "./options.ts";
import { makeRelease } from "./release.ts";

await runScript(async () => {
  const options = parseOptions(process.argv.slice(2));
  await (options.check ? makeCheckedRelease(options) : makeRelease(options));
});
