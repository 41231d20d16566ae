// The repository's own files as data, for the rules in test/house: paths relative to the root, texts, imports, cycles.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));
/** The folders with our TypeScript, except the examples, which import only published packages. */
export const CODE_FOLDERS = ["src", "harness", "test", "prove", "bench", "tools"] as const;

const SKIPPED = new Set(["node_modules", "dist"]);

export const readText = (path: string): string => readFileSync(join(root, path), "utf8");

export const readJson = (path: string): unknown => JSON.parse(readText(path));

/** Every file below a folder whose name ends with one of the endings, in a stable order. */
export function filesIn(folder: string, ...endings: string[]): string[] {
  const walk = (dir: string): string[] =>
    readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
      const path = join(dir, entry.name);
      if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : walk(path);
      return endings.length === 0 || endings.some((end) => entry.name.endsWith(end)) ? [relative(root, path)] : [];
    });
  return walk(join(root, folder)).toSorted();
}

type Import = { file: string; target: string; typeOnly: boolean };

/** Static, re-exported and dynamic imports, as written. */
export function importsOf(file: string): Import[] {
  const text = readText(file);
  const found = [
    ...text.matchAll(/^(?:import|export)\s+(type\s)?[^;]*?from\s+"([^"]+)"/gm),
    ...text.matchAll(/(typeof )?\bimport\("([^"]+)"\)/g),
    ...text.matchAll(/^import\s+(type\s)?"([^"]+)"/gm),
  ];
  return found.map(([, type, target = ""]) => ({ file, target, typeOnly: type !== undefined }));
}

/** The path, from the root, of the file that a relative import names. */
export const targetOf = ({ file, target }: Import): string => join(dirname(file), target);

/**
 * One shortest cycle through each file that is on one, as "a -> b -> a". Type-only imports count: they tie
 * files together for a reader as much as others do.
 */
export function importCycles(files: readonly string[]): string[] {
  const known = new Set(files);
  const graph = new Map(
    files.map((file) => [
      file,
      importsOf(file)
        .filter(({ target }) => target.startsWith("."))
        .map(targetOf)
        .filter((target) => known.has(target)),
    ]),
  );
  const seen = new Set<string>();
  return files.flatMap((file) => {
    const cycle = seen.has(file) ? null : shortestCycle(graph, file);
    for (const each of cycle ?? []) seen.add(each);
    return cycle ? [[...cycle, file].join(" -> ")] : [];
  });
}

/** Breadth first from a file back to itself. */
function shortestCycle(graph: Map<string, string[]>, start: string): string[] | null {
  const from = new Map<string, string>();
  const queue = [start];
  for (const file of queue) {
    for (const next of graph.get(file) ?? []) {
      if (next === start) {
        const path = [file];
        while (path[0] !== start) path.unshift(from.get(path[0] as string) as string);
        return path;
      }
      if (!from.has(next)) {
        from.set(next, file);
        queue.push(next);
      }
    }
  }
  return null;
}

/**
 * The text of every comment, one entry each; good enough for our style, where `//` in a string never follows a space.
 */
export function commentsIn(text: string): string[] {
  return [...text.matchAll(/\/\*[\s\S]*?\*\/|(?<=^|[\s;{(,])\/\/(?: .*)?$/gm)].map(([comment]) => comment);
}
