// How this program is called.
import { accessSync, constants } from "node:fs";
import { delimiter, dirname, join, relative, resolve } from "node:path";
import sea from "node:sea";

const NAME = "keyrack";

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Its name where it is on PATH, else its path: a checkout and a downloaded binary are often not installed. */
export function commandPath({ PATH = "" }: NodeJS.ProcessEnv = process.env): string {
  const own = sea.isSea() ? process.execPath : resolve(dirname(process.argv[1] ?? ""), NAME);
  const folders = PATH.split(delimiter).filter((folder) => folder !== "");
  return !isExecutable(own) || folders.some((folder) => isExecutable(join(folder, NAME))) ? NAME : own;
}

/** The same, as short as it can be in the working folder. */
export function commandName(env: NodeJS.ProcessEnv = process.env): string {
  const own = commandPath(env);
  if (own === NAME) return NAME;
  const near = relative(process.cwd(), own);
  if (near.startsWith("..")) return own;
  return near.includes("/") ? near : `./${near}`;
}

/** Quotes an argument of a shell command if that is needed. */
export function shellQuote(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
