// `keyrack profile list/use/remove`. Credentials are never printed.
import type { Command } from "commander";
import { readProfiles, writeProfiles, type Profile } from "../api/profiles.ts";
import { ExitError, out, safe, table } from "../ui/output.ts";
import { outputFlags, type OutputOptions } from "../api/target.ts";

export function addProfileCommands(program: Command): void {
  const profile = program.command("profile").description("Kept credentials.");
  outputFlags(profile.command("list"), "print only the names")
    .description("Every profile; the current one is marked.")
    .addHelpText("after", "\nExamples:\n  keyrack profile list\n  keyrack profile list --json")
    .action((options: OutputOptions) => list(options));
  outputFlags(profile.command("use"), "print only the name")
    .description("Make a profile the current one.")
    .argument("<name>")
    .addHelpText("after", "\nExamples:\n  keyrack profile use ci\n  keyrack profile use default")
    .action((name: string, options: OutputOptions) => use(name, options));
  outputFlags(profile.command("remove"), "print only the name")
    .description("Forget a profile. A session in it stays valid on the server: keyrack logout ends it.")
    .argument("<name>")
    .addHelpText("after", "\nExamples:\n  keyrack profile remove ci\n  keyrack profile remove ci --json")
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
  if (options.json) return out(JSON.stringify({ object: "list", data }));
  if (options.quiet) return data.length > 0 ? out(data.map(({ name }) => name).join("\n")) : undefined;
  if (data.length === 0) return out("No profile yet. Run: keyrack login");
  const rows = data.map((row) => [row.current ? "*" : "", row.name, row.url, row.kind, safe(row.about ?? "")]);
  out(table([["", "NAME", "URL", "KIND", "ABOUT"], ...rows]));
}

function known(name: string): void {
  if (!Object.hasOwn(readProfiles().profiles, name))
    throw new ExitError(`There is no profile "${name}". Run: keyrack profile list`, 2);
}

function use(name: string, options: OutputOptions): void {
  known(name);
  writeProfiles({ ...readProfiles(), current: name });
  say(name, `Profile "${name}" is the current one.`, options);
}

function remove(name: string, options: OutputOptions): void {
  known(name);
  const { current, profiles } = readProfiles();
  const { [name]: _gone, ...rest } = profiles;
  writeProfiles({ current: current === name ? null : current, profiles: rest });
  say(name, `Profile "${name}" is gone.`, options);
}

function say(name: string, sentence: string, options: OutputOptions): void {
  if (options.json) return out(JSON.stringify({ profile: name }));
  out(options.quiet ? name : sentence);
}
