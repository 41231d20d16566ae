// Comments and documents use the words that engineers search for. Each word below has a plain one beside it.
import { describe, expect, it } from "vitest";
import { CODE_FOLDERS, commentsIn, filesIn, readText } from "../../harness/repository.ts";

/** Word → what to write instead. */
const AVOIDED: [RegExp, string][] = [
  [/\banew\b/, "again"],
  [/\bwhoever\b/i, "name the caller, client or process"],
  [/\b(no|some)body\b/i, "name the caller, client or process"],
  [/\b(told|tells?|telling)\b/i, "respond, report, notify"],
  [/\bstands\b(?! for)/, "is, exists"],
  [/\blies\b/, "is stored, is"],
  [/\bmend(s|ed)?\b/, "fix"],
  [/\b(bring|brings|brought) along\b/, "include"],
  [/\bbreathes?\b/, "yield to the event loop"],
  [/\bspoil(s|ed|t)?\b/, "invalidate, corrupt"],
  [/(?<!at[ -])\brest\b(?! API)/, "remainder, other"],
  [/\bdrawers?\b/, "slot, bucket"],
  [/\bdoors?\b/, "endpoint, entry point"],
  [/\b(at a|a) word\b|\bword (of|on|from)\b/, "report, description"],
  [/\b(goes|go|going|went) on\b/, "continue"],
  [/\bin the midst\b/, "during"],
  [/\bso (many|much) (?!that)/, "give the number a name"],
];

/** Hits that are left in each folder. Shrink-only, to be emptied. */
const LEFT: Record<string, number> = { docs: 3 };

const count = (files: string[], textOf: (file: string) => string): string[] =>
  files.flatMap((file) =>
    textOf(file)
      .split("\n")
      .flatMap((line) =>
        AVOIDED.flatMap(([word, instead]) => {
          const hit = word.exec(line.replace(/`[^`]*`/g, ""))?.[0]; // a name in code is not prose
          return hit ? [`${file}: "${hit}" (${instead}): ${line.trim().slice(0, 100)}`] : [];
        }),
      ),
  );

const found: Record<string, string[]> = {};
const add = (hits: string[]): void => {
  for (const hit of hits) {
    const [top = "", second = ""] = hit.split(/[/:]/);
    const folder = ["src", "test"].includes(top) ? `${top}/${second}` : top;
    (found[folder] ??= []).push(hit);
  }
};
/** Comments, and the names of tests. */
function wordsIn(file: string): string {
  const text = readText(file);
  const names = [...text.matchAll(/\b(?:describe|it)(?:\.\w+(?:\([^)]*\))?)?\(\s*(["`])(.*?)\1/g)];
  return [...commentsIn(text), ...names.map(([, , name = ""]) => name)].join("\n");
}

for (const folder of CODE_FOLDERS) add(count(filesIn(folder, ".ts", ".tsx"), wordsIn));
add(count([...filesIn("docs", ".md"), "README.md", "CONTRIBUTING.md", "SECURITY.md"], readText));

describe("comments, test names and documents", () => {
  it.for(Object.keys(found).toSorted())("use standard terms in %s", (folder) => {
    const hits = found[folder] ?? [];
    const left = LEFT[folder] ?? 0;
    expect(hits.length > left ? hits : []).toEqual([]);
  });
});
