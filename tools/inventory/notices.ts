// THIRD_PARTY_NOTICES.txt: name, version, licence and full licence text of everything that Keyrack contains.
import type { Component } from "./components.ts";

const RULE = "=".repeat(80);

export function noticesText(components: readonly Component[]): string {
  const sections = components.map(
    ({ name, version, licence, text }) => `${RULE}\n${name} ${version}\nLicence: ${licence}\n${RULE}\n\n${text}\n`,
  );
  return `Keyrack contains the software below, each part under its own licence.\n\n${sections.join("\n")}`;
}
