// Puts a program into a copy of the target's Node, by Node's Single Executable Application feature. The same program
// gives the same bytes: V8's code cache depends on the random seed and on the script's path, so both are fixed.
// Caution: --hash-seed makes equal bytes too, but V8 then rejects the cache at run time. And the Node binary is
// stripped before the blob is injected; stripping afterwards would remove the blob.
import { execFile } from "node:child_process";
import { chmodSync, copyFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { NODE_FLAGS } from "../../harness/release/node-flags.ts";
import { baseNode } from "./base-node.ts";
import { emulatorProblem } from "./emulator.ts";
import type { Program } from "./program.ts";
import { commandFor, here, root, targets, type Target } from "./targets.ts";

const run = promisify(execFile);
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

type Binary = { path: string; codeCache: boolean };

/** Replaces `out` by rename: a running binary cannot be overwritten. */
export async function makeBinary(program: Program, target: Target, out: string): Promise<Binary> {
  const node = await baseNode(target, program.folder);
  // The cache has to be made by the target's own Node: by qemu where that is another platform's.
  const codeCache = emulatorProblem(target, node) === null;
  if (!codeCache) {
    const packages = targets[target].qemu.debianPackages.join(" ");
    console.error(`no code cache for ${target}, so it starts slower: that takes ${packages}`);
  }
  const command = codeCache ? commandFor(target, node) : [process.execPath];
  const blob = await makeBlob(program, target, command, codeCache);
  const unfinished = `${out}.new`;
  try {
    copyFileSync(node, unfinished);
    chmodSync(unfinished, 0o755);
    await strip(target, unfinished);
    await inject(blob, unfinished);
    renameSync(unfinished, out);
  } finally {
    rmSync(unfinished, { force: true });
  }
  return { path: out, codeCache };
}

async function makeBlob(
  program: Program,
  target: Target,
  [command = "", ...args]: readonly string[],
  useCodeCache: boolean,
): Promise<string> {
  const blob = `${target}.blob`;
  const config = `${target}.json`;
  const addon = (path: string): string => join(root, "node_modules", path);
  const native = {
    "native/better-sqlite3.node": addon(`better-sqlite3/prebuilds/${target}.node`),
    "native/argon2.node": addon(`argon2/prebuilds/${targets[target].argon2}`),
  };
  writeFileSync(
    join(program.folder, config),
    JSON.stringify({
      main: "main.js",
      output: blob,
      assets: { ...program.assets, ...native },
      disableExperimentalSEAWarning: true,
      useCodeCache,
      execArgv: NODE_FLAGS,
      execArgvExtension: "none", // else NODE_OPTIONS could run scripts inside the binary
    }),
  );
  // With the same flags as at run time: otherwise V8 rejects the code cache.
  await run(command, [...args, ...NODE_FLAGS, "--random-seed=42", "--experimental-sea-config", config], {
    cwd: program.folder,
  });
  return join(program.folder, blob);
}

async function strip(target: Target, binary: string): Promise<void> {
  const own = target === here ? ["strip"] : [];
  for (const tool of [targets[target].strip.name, ...own, "llvm-strip"]) {
    const failure = await run(tool, [binary]).then(
      () => null,
      (error: NodeJS.ErrnoException) => error,
    );
    if (!failure) return;
    if (failure.code !== "ENOENT") throw failure;
  }
  console.error(`no strip for ${target} on this machine: the binary keeps its symbols and is some 20 MB larger`);
}

async function inject(blob: string, binary: string): Promise<void> {
  const postject = join(root, "node_modules/postject/dist/cli.js");
  await run(process.execPath, [postject, binary, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE]);
}
