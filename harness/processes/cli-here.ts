// Runs a command of keyrack in this process, one at a time: meanwhile its environment, working directory and standard
// streams are those of the command.
import { Readable, Writable } from "node:stream";
import { runCommandLine } from "../../src/cli/run.ts";

type Options = { env: Record<string, string>; cwd?: string; input?: string };
type Ran = { code: number; stdout: string; stderr: string };

let last: Promise<unknown> = Promise.resolve();

export function runHere(args: string[], options: Options): Promise<Ran> {
  const run = last.then(() => runAlone(args, options));
  last = run.catch(() => {});
  return run;
}

async function runAlone(args: string[], { env, cwd = process.cwd(), input = "" }: Options): Promise<Ran> {
  const [stdout, stderr] = [new Captured(), new Captured()];
  const before = { env: { ...process.env }, cwd: process.cwd(), umask: process.umask(), exitCode: process.exitCode };
  const stdin = Readable.from(input === "" ? [] : [Buffer.from(input)]);
  const giveBack = replaceStreams({ stdin, stdout, stderr });
  replaceEnv(env);
  process.chdir(cwd);
  process.umask(0o022); // as in a shell, although an instance in this process tightened it
  process.exitCode = undefined;
  try {
    const code = await runCommandLine(args);
    return { code, stdout: stdout.text, stderr: stderr.text };
  } finally {
    giveBack();
    replaceEnv(before.env);
    process.chdir(before.cwd);
    process.umask(before.umask);
    process.exitCode = before.exitCode;
  }
}

class Captured extends Writable {
  text = "";

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** Returns a function that puts the process's own streams back. */
function replaceStreams(streams: Record<"stdin" | "stdout" | "stderr", Readable | Writable>): () => void {
  const own = Object.keys(streams).map((name) => [name, Object.getOwnPropertyDescriptor(process, name)!] as const);
  for (const [name, value] of Object.entries(streams))
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true });
  return () => {
    for (const [name, descriptor] of own) Object.defineProperty(process, name, descriptor);
  };
}

function replaceEnv(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
}
