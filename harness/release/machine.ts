// A machine to install on: a prefix, and a path with only the programs that install.sh may call.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../processes/cli.ts";

const BEYOND_POSIX = ["tar", "gzip", "sha256sum", "mktemp", "ldd", "ssh-keygen"];
const POSIX = "cat chmod cmp cp dirname getconf grep id ln mkdir mv rm sed tail uname";
/** Everything install.sh may call, beside curl or wget. */
export const PROGRAMS = [...BEYOND_POSIX, ...POSIX.split(" ")];

const found = new Map<string, string>();

/** The path of a program of the real machine; empty if it is not installed. */
export function which(name: string): string {
  const path = found.get(name) ?? spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
  found.set(name, path);
  return path;
}

type Options = { shell?: string[]; programs?: string[]; script: string };
type Ran = { code: number | null; output: string };

export function machine({ shell = ["sh"], programs = PROGRAMS, script }: Options) {
  const temp = tempDir();
  const at = (...parts: string[]): string => join(temp.dir, ...parts);
  for (const folder of ["programs", "prefix", "tmp"]) mkdirSync(at(folder));
  for (const name of programs) if (which(name) !== "") symlinkSync(which(name), at("programs", name));
  writeFileSync(at("install.sh"), script);
  const env = { PATH: at("programs"), HOME: at("tmp"), TMPDIR: at("tmp"), KEYRACK_STATE_DIR: at("state") };
  const [program = "", ...first] = shell;
  return {
    at,
    dir: temp.dir,
    /** Runs install.sh in the machine's folder. `output` is both streams. */
    run: (args: string[], more: Record<string, string> = {}): Promise<Ran> =>
      new Promise((resolve) => {
        const child = spawn(which(program), [...first, at("install.sh"), "--prefix", at("prefix"), ...args], {
          env: { ...env, ...more },
          cwd: temp.dir,
          stdio: ["ignore", "pipe", "pipe"],
        });
        let output = "";
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
        child.on("close", (code) => resolve({ code, output }));
      }),
    /** The versions of keyrack and keyrack.previous; null if there is none. */
    installed: (): (string | null)[] =>
      ["keyrack", "keyrack.previous"].map((name) => {
        const file = at("prefix/bin", name);
        return existsSync(file) ? spawnSync(file, ["version"], { encoding: "utf8" }).stdout.trim() : null;
      }),
    [Symbol.dispose]: () => temp[Symbol.dispose](),
  };
}
