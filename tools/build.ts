// npm run build [-- --target linux-x64|linux-arm64] [--out FILE]: the single binary, dist/keyrack. Its version names
// the commit. The files of a release are made by npm run release.
import { execFileSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { ExitError } from "../src/cli/ui/output.ts";
import { commitOf, snapshotOf } from "./release/source.ts";
import { makeBinary } from "./sea/binary.ts";
import { prepareProgram } from "./sea/program.ts";
import { parseFlags, runScript } from "./script.ts";
import { allTargets, here, isTarget, root } from "./sea/targets.ts";
import { withTemporaryFolder } from "./temporary-folder.ts";

await runScript(async () => {
  const { values } = parseFlags({ options: { target: { type: "string", default: here }, out: { type: "string" } } });
  const { target } = values;
  if (!isTarget(target)) throw new ExitError(`--target is one of ${allTargets.join(", ")}`, 2);
  const standard = target === here ? "dist/keyrack" : `dist/${target}/keyrack`;
  const out = values.out ? resolve(values.out) : join(root, standard);
  mkdirSync(dirname(out), { recursive: true });
  const snapshot = snapshotOf(commitOf(root));
  await withTemporaryFolder(join(tmpdir(), "keyrack-build-"), async (work) => {
    const program = await prepareProgram(work, snapshot, join(root, "release-keys"));
    await makeBinary(program, target, out);
  });
  console.log(
    `${relative(root, out)}  ${(statSync(out).size / 2 ** 20).toFixed(1)} MiB  ${target}  ${snapshot.version}`,
  );
  if (target === here) console.log(`runs: keyrack ${execFileSync(out, ["version"]).toString().trim()}`);
});
