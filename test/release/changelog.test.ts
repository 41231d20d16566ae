// CHANGELOG.md: the sections people look for, and the release note of a version.
import { expect, it } from "vitest";
import { readText } from "../../harness/repository.ts";
import { newestVersion, releaseNotes } from "../../tools/version/changelog.ts";

const SECTIONS = ["Upgrade", "Added", "Changed", "Fixed", "Security", "Removed"];
const changelog = readText("CHANGELOG.md");

it("starts with what is not released, then versions with their dates, newest first", () => {
  const [first, ...released] = changelog.match(/^## .*$/gm) ?? [];
  expect(first).toBe("## Unreleased");
  expect(released.filter((heading) => !/^## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$/.test(heading))).toEqual([]);
  const versions = released.map((heading) => heading.slice(3).split(" ")[0] ?? "");
  const sorted = versions.toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
  expect(versions).toEqual(sorted);
});

it("has only the known sections, each with a list", () => {
  const headings = changelog.match(/^### .*$/gm) ?? [];
  expect(headings.filter((heading) => !SECTIONS.includes(heading.slice(4)))).toEqual([]);
  expect(changelog.match(/^### .*\n(?!- )/gm)).toBeNull();
});

it("has entries that can be read at a glance", () => {
  const long = (changelog.match(/^- .*$/gm) ?? []).filter((entry) => entry.length > 600);
  expect(long.map((entry) => entry.slice(0, 80))).toEqual([]);
});

it("gives a version its own section as release note", () => {
  const text =
    "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 - 2026-12-01\n\n### Added\n- b\n\n## 0.1.0 - 2026-11-16\n\n- a\n";
  expect(releaseNotes(text, "0.2.0")).toBe("## 0.2.0 - 2026-12-01\n\n### Added\n- b\n");
  expect(releaseNotes(text, "0.1.0")).toBe("## 0.1.0 - 2026-11-16\n\n- a\n");
  expect(() => releaseNotes(text, "0.3.0")).toThrow("CHANGELOG.md has no section for 0.3.0");
  expect(newestVersion(text)).toBe("0.2.0");
});
