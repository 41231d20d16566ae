// What a file exports is what others use: a false export hides a file's real surface.
import { expect, it } from "vitest";
import { CODE_FOLDERS, filesIn, readText, targetOf } from "../../harness/repository.ts";

/** What they export is for the users of the library, the gateway and the portal, and for vitest. */
const PUBLIC = /^(src\/(sdk\/index|gateway|web\/portal\/portal)|harness\/setup\/[\w-]+)\.ts$/;

const EXPORT =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|type|interface|enum) (\w+)/gm;

const NAMED = /^(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s*from\s+"(\.[^"]+)"/gm;
const WHOLE = /(?:^(?:import|export)\s+(?:type\s+)?\*[^"]*from\s+|\bimport\()"(\.[^"]+)"/gm;

/** "path#name" for every name that a file imports from another; "path#*" where it takes the whole module. */
function namesImportedBy(file: string): string[] {
  const text = readText(file);
  const pathOf = (target: string): string => targetOf({ file, target, typeOnly: false });
  const named = [...text.matchAll(NAMED)].flatMap(([, names = "", target = ""]) =>
    [...names.matchAll(/(?:^|,)\s*(?:type\s+)?(\w+)/g)].map(([, name]) => `${pathOf(target)}#${name}`),
  );
  return [...named, ...[...text.matchAll(WHOLE)].map(([, target = ""]) => `${pathOf(target)}#*`)];
}

it("every export is imported by another file", () => {
  const files = CODE_FOLDERS.flatMap((folder) => filesIn(folder, ".ts", ".tsx"));
  const used = new Set([...files, "vitest.config.ts"].flatMap(namesImportedBy));
  const unused = files
    .filter((file) => !PUBLIC.test(file) && !used.has(`${file}#*`))
    .flatMap((file) => [...readText(file).matchAll(EXPORT)].map(([, name]) => `${file}#${name}`))
    .filter((name) => !used.has(name));
  expect(unused).toEqual(["bench/fast-paths/switches.ts#FastRequest", "bench/fast-paths/switches.ts#LinkedList"]); // within the text of another file
});
