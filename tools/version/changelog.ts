// CHANGELOG.md as data: sections by version, newest first, with what is not released yet on top.
import { ExitError } from "../../src/cli/ui/output.ts";

const UNRELEASED = "## Unreleased";
const RELEASED = /^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$/;

type Section = { heading: string; body: string };

function sections(changelog: string): Section[] {
  return changelog
    .split(/^(?=## )/m)
    .slice(1)
    .map((text) => {
      const end = text.indexOf("\n");
      return { heading: text.slice(0, end), body: text.slice(end).trim() };
    });
}

const versionOf = ({ heading }: Section): string | undefined => RELEASED.exec(heading)?.[1];

export function newestVersion(changelog: string): string | undefined {
  return sections(changelog)
    .map(versionOf)
    .find((version) => version !== undefined);
}

/** The release note of a version: its section, heading included. */
export function releaseNotes(changelog: string, version: string): string {
  const found = sections(changelog).find((section) => versionOf(section) === version);
  if (!found) throw new ExitError(`CHANGELOG.md has no section for ${version}`, 2);
  return `${found.heading}\n\n${found.body}\n`;
}

function unreleased(changelog: string): Section {
  const first = sections(changelog)[0];
  if (first?.heading !== UNRELEASED)
    throw new ExitError(`the first section of CHANGELOG.md must be "${UNRELEASED}"`, 2);
  return first;
}

/** A release of more than its notes describe would have the number of another one. */
export function assertNothingUnreleased(changelog: string): void {
  if (unreleased(changelog).body === "") return;
  throw new ExitError(
    "CHANGELOG.md has unreleased changes: run npm run version:set first, or add --snapshot to build them unreleased",
    2,
  );
}

/** The notes of a snapshot. */
export function unreleasedNotes(changelog: string): string {
  const { heading, body } = unreleased(changelog);
  return `${heading}\n\n${body}\n`;
}

/** Gives the unreleased changes a version and a date, under a new empty section. */
export function closeUnreleased(changelog: string, version: string, date: string): string {
  if (unreleased(changelog).body === "")
    throw new ExitError(`"${UNRELEASED}" of CHANGELOG.md is empty: there is nothing to release`, 2);
  return changelog.replace(`${UNRELEASED}\n`, `${UNRELEASED}\n\n## ${version} - ${date}\n`);
}
