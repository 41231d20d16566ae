// Runs a script of this folder as a process of its own, for tests that need a second process.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

type Child = {
  process: ChildProcess;
  /** The next line on the child's stdout. */
  line(): Promise<string>;
  say(text: string): void;
  /** Resolves with the exit code, or the signal that ended it. */
  ended: Promise<number | string>;
};

/** `script` is a file beside this one; its arguments arrive as JSON in process.argv[2]. */
export function startChild(script: string, args: unknown): Child {
  const path = fileURLToPath(new URL(`./${script}`, import.meta.url));
  const child = spawn(process.execPath, [path, JSON.stringify(args)], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = once(child, "exit").then(([code, signal]) => (code ?? signal) as number | string);
  return {
    process: child,
    line: async () => {
      const next = await lines.next();
      return next.done ? `(the child ended: ${await ended})` : next.value;
    },
    say: (text) => void child.stdin.write(`${text}\n`),
    ended,
  };
}
