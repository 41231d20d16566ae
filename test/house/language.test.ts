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
  [/\blog-ins?\b/i, "login; the verb is log in"],
  [/\bso (many|much) (?!that)/, "give the number a name"],
];

const hits = (files: string[], textOf: (file: string) => string): string[] =>
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

/** Comments, and the names of tests. */
function wordsIn(file: string): string {
  const text = readText(file);
  const names = [...text.matchAll(/\b(?:describe|it)(?:\.\w+(?:\([^)]*\))?)?\(\s*(["`])(.*?)\1/g)];
  return [...commentsIn(text), ...names.map(([, , name = ""]) => name)].join("\n");
}

const code = CODE_FOLDERS.flatMap((folder) => filesIn(folder, ".ts", ".tsx"));
const pages = [...filesIn("docs", ".md"), "README.md", "CONTRIBUTING.md", "SECURITY.md"];

describe("standard terms", () => {
  it("are used in comments and test names", () => {
    expect(hits(code, wordsIn)).toEqual([]);
  });

  it("name the subject: no comment of src starts with Of or Those", () => {
    const starts = filesIn("src", ".ts", ".tsx").flatMap((file) =>
      [...readText(file).matchAll(/^\s*(?:\/\/|\/\*\*) (?:Of|Those) .*/gm)].map(([line]) => `${file}: ${line.trim()}`),
    );
    expect(starts).toEqual([]);
  });

  it("are used in documents", () => {
    expect(hits(pages, readText)).toEqual([]);
  });
});
