// What the code and the documents refer to is in this repository: files that exist, and reasons instead of the numbers
// of rules that a reader cannot look up.
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { CODE_FOLDERS, commentsIn, filesIn, readText, root } from "../../harness/repository.ts";

const code = CODE_FOLDERS.flatMap((folder) => filesIn(folder, ".ts", ".tsx", ".mjs", ".c"));
const pages = [...filesIn("docs", ".md"), "README.md", "CONTRIBUTING.md", "SECURITY.md"];
const readmes = ["bench", "deploy", "examples", "harness", "prove", "tools"].flatMap((folder) =>
  filesIn(folder, ".md"),
);
const documents = [...pages, "CHANGELOG.md", ...readmes];
const self = "test/house/references.test.ts";
/** Entries of earlier versions name files as they were then: its links are checked, what it quotes is not. */
const current = documents.filter((file) => file !== "CHANGELOG.md");
const all = [...code, ...current].filter((file) => file !== self);

/** "decision 18", "security 5", and a bare "(164)" that ends a sentence of a comment. */
const NUMBERED = /\b(?:decisions?|security|reliability) \d{1,3}(?![,\d])/i;
const BARE = /\(\d{2,3}(?:(?:,| and| to) \d{1,3})*\)(?=[.;]|\s*(?:\*\/|$))/m;

const exists = (path: string): boolean => existsSync(join(root, path));
const named = [...all, ...filesIn("migrations"), ...filesIn("examples"), ...readdirSync(root)];
const names = new Set(named.map((path) => path.split("/").at(-1)));
const FOLDERS = "src|test|harness|prove|bench|tools|docs|deploy|examples|migrations";

/** Paths a text names: from the root, from src, from the file itself; a name alone may be any file's. */
function missingIn(file: string, text: string): string[] {
  const paths = text.match(/(?<![\w./@$*-])\w[\w.-]*(?:\/[\w.-]*\w)*\.(?:tsx?|md|sql)\b(?![\w/*])/g) ?? [];
  const folders = text.match(new RegExp(`(?<![\\w./@-])(?:${FOLDERS})(?:/[\\w-]+)+(?![\\w./*{<-])`, "g")) ?? [];
  return [...paths, ...folders].filter((path) => {
    if (path.includes("NNNN")) return false;
    if (!path.includes("/")) return !names.has(path);
    const places = [path, `src/${path}`, `test/${path}`, normalize(join(dirname(file), path))];
    return !places.some(exists);
  });
}

describe("references", () => {
  it("give a reason or a design record, not the number of a rule", () => {
    const found = all.filter((file) => {
      const text = readText(file);
      const comments = file.endsWith(".md") ? "" : commentsIn(text).join("\n");
      return NUMBERED.test(text) || BARE.test(comments);
    });
    expect(found).toEqual([]);
  });

  it("in comments name files that exist", () => {
    const found = code.flatMap((file) =>
      missingIn(file, commentsIn(readText(file)).join("\n")).map((path) => `${file}: ${path}`),
    );
    expect(found).toEqual([]);
  });

  it("in documents link to files that exist", () => {
    const found = documents.flatMap((file) =>
      [...readText(file).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)[^)]*\)/g)]
        .map(([, path = ""]) => normalize(join(dirname(file), path)))
        .filter((path) => !exists(path))
        .map((path) => `${file}: ${path}`),
    );
    expect(found).toEqual([]);
  });

  it("in documents lead to the page that their text names", () => {
    const found = documents.flatMap((file) =>
      [...readText(file).matchAll(/\[([\w./-]+\.md)\]\(([^)#\s]+\.md)[^)]*\)/g)]
        .filter(([, text = "", path = ""]) => text.split("/").at(-1) !== path.split("/").at(-1))
        .map(([link]) => `${file}: ${link}`),
    );
    expect(found).toEqual([]);
  });

  it("in documents link to headings that exist", () => {
    /** As GitHub names them: the second of one name ends in -1. */
    const anchorsOf = (file: string): Set<string> => {
      const seen = new Map<string, number>();
      const prose = readText(file).replaceAll(/^```[\s\S]*?^```/gm, "");
      return new Set(
        [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => {
          const anchor = title
            .toLowerCase()
            .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
            .replaceAll(" ", "-");
          const n = seen.get(anchor) ?? 0;
          seen.set(anchor, n + 1);
          return n === 0 ? anchor : `${anchor}-${n}`;
        }),
      );
    };
    const found = documents.flatMap((file) =>
      [...readText(file).matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)]
        .map(([, path = "", anchor = ""]) => ({
          page: path === "" ? file : normalize(join(dirname(file), path)),
          anchor,
        }))
        .filter(({ page, anchor }) => page.endsWith(".md") && exists(page) && !anchorsOf(page).has(anchor))
        .map(({ page, anchor }) => `${file}: ${page}#${anchor}`),
    );
    expect(found).toEqual([]);
  });

  it("in docs/README.md lead to every page of docs, except the records that docs/design lists", () => {
    const index = readText("docs/README.md");
    const listed = filesIn("docs", ".md").filter((file) => !/^docs\/(README|design\/\d)/.test(file));
    expect(listed.filter((file) => !index.includes(`](${file.slice("docs/".length)}`))).toEqual([]);
  });

  it("in documents name source files that exist", () => {
    const quoted = (text: string): string =>
      [...text.matchAll(/`([^`\n]+)`/g)].map(([, inside = ""]) => (/\s/.test(inside) ? "" : inside)).join("\n");
    const found = current.flatMap((file) => missingIn(file, quoted(readText(file))).map((path) => `${file}: ${path}`));
    expect(found).toEqual([]);
  });
});
