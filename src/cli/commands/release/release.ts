// `keyrack release verify`: checks a downloaded release before it is installed, offline.
import type { Command } from "commander";
import { readText } from "../../../platform/packaged-files.ts";
import {
  ExitError,
  escapeControls,
  examples,
  outputFlags,
  plural,
  printResult,
  readTextFile,
  type OutputOptions,
} from "../../ui/output.ts";
import { parseAllowedSigners } from "./allowed-signers.ts";
import { IDENTITY, verifyRelease, type FileResult, type ReleaseReport } from "./verify.ts";

type Options = OutputOptions & { keys?: string; unsigned?: true };

/** At the root of the repository, and inside the binary. */
const RELEASE_KEYS = "release-keys";

export function addTo(program: Command): void {
  const release = program.command("release");
  outputFlags(release.command("verify"), "print only problems")
    .description("Check a release's signature, then every file, offline. Exit 4 if anything is wrong.")
    .argument("<path...>", "the folder of a release, or files of one beside its SHA256SUMS")
    .option("--keys <file>", "allowed_signers file that replaces the built-in release keys")
    .option("--unsigned", "accept a release that has no signature")
    .addHelpText(
      "after",
      examples([
        "keyrack release verify ./keyrack-release",
        "keyrack release verify keyrack-0.2.0-linux-x64.tar.gz install.sh --json",
      ]),
    )
    .action((paths: string[], options: Options) => verify(paths, options));
}

async function verify(paths: string[], options: Options): Promise<void> {
  const text = options.keys === undefined ? readText(RELEASE_KEYS) : readTextFile(options.keys);
  const keys = parseAllowedSigners(text, options.keys ?? RELEASE_KEYS, IDENTITY);
  const report = await verifyRelease(paths, { keys, unsigned: options.unsigned === true });
  const problems = report.files.filter(({ ok }) => !ok).map(describeProblem);
  const [first] = problems;
  // The error on standard error names the first one.
  const listed = problems.length > 1 ? problems.join("\n") : "";
  printResult(options, { json: report, quiet: problems.join("\n"), human: first ? listed : summary(report) });
  if (first) throw new ExitError(`Not verified. ${first}.`, 4);
}

/** Names and reasons may contain text from the files themselves. */
const describeProblem = ({ name, reason }: FileResult): string =>
  `${escapeControls(name)}: ${escapeControls(reason ?? "")}`;

function summary({ version, signer, files }: ReleaseReport): string {
  const what = `Verified ${plural(files.length, "file")} of keyrack ${version ?? "(unknown version)"}`;
  return signer === null ? `${what}. The release is not signed.` : `${what}, signed by ${signer}.`;
}
