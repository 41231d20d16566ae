// `keyrack profile list/use/remove`. Credentials are never printed.
import type { Command } from "commander";
import { readProfiles, removeProfile, selectProfile, type Profile } from "../api/profiles.ts";
import { escapeControls, examples, outputFlags, printResult, table, type OutputOptions } from "../ui/output.ts";

export function addTo(program: Command): void {
  const profile = program.command("profile");
  outputFlags(profile.command("list"), "print only the names")
    .description("List profiles. The current one is marked with *.")
    .addHelpText("after", examples(["keyrack profile list", "keyrack profile list --json"]))
    .action((options: OutputOptions) => list(options));
  outputFlags(profile.command("use"), "print only the name")
    .description("Make a profile the current one.")
    .argument("<name>")
    .addHelpText("after", examples(["keyrack profile use ci", "keyrack profile use default"]))
    .action((name: string, options: OutputOptions) => use(name, options));
  outputFlags(profile.command("remove"), "print only the name")
    .description("Remove a profile. Its session stays valid on the server; use keyrack logout to end it.")
    .argument("<name>")
    .addHelpText("after", examples(["keyrack profile remove ci", "keyrack profile remove ci --json"]))
    .action((name: string, options: OutputOptions) => remove(name, options));
}

const kindOf = (profile: Profile): string => (profile.secret_key ? "secret key" : "session");

function list(options: OutputOptions): void {
  const { current, profiles } = readProfiles();
  const data = Object.entries(profiles).map(([name, profile]) => ({
    name,
    current: name === current,
    url: profile.url,
    kind: kindOf(profile),
    about: profile.about ?? null,
  }));
  const rows = data.map((row) => [
    row.current ? "*" : "",
    row.name,
    row.url,
    row.kind,
    escapeControls(row.about ?? ""),
  ]);
  printResult(options, {
    json: { object: "list", data },
    quiet: data.map(({ name }) => name).join("\n"),
    human:
      data.length === 0
        ? "No profiles yet. Run: keyrack login"
        : table([["", "NAME", "URL", "KIND", "ABOUT"], ...rows]),
  });
}

function use(name: string, options: OutputOptions): void {
  selectProfile(name);
  printResult(options, { json: { profile: name }, quiet: name, human: `Now using profile "${name}".` });
}

function remove(name: string, options: OutputOptions): void {
  removeProfile(name);
  printResult(options, { json: { profile: name }, quiet: name, human: `Removed profile "${name}".` });
}
