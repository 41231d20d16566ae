// Profiles: an address with its credential, in ~/.config/keyrack/profiles.json, readable by its owner only.
// A profile's credential is sent to that profile's address and to no other.
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { writeFileAtomically } from "../../platform/fsync.ts";
import { ExitError } from "../ui/output.ts";

export type Profile = { url: string; secret_key?: string; session_token?: string; about?: string };
export type Profiles = { current: string | null; profiles: Record<string, Profile> };

export function profilesFile(): string {
  return join(process.env.XDG_CONFIG_HOME || join(homedir(), ".config"), "keyrack", "profiles.json");
}

export function readProfiles(): Profiles {
  const file = profilesFile();
  if (!existsSync(file)) return { current: null, profiles: {} };
  if ((statSync(file).mode & 0o077) !== 0)
    throw new ExitError(`${file} is readable by others. Run: chmod 600 ${file}`, 2);
  try {
    const { current = null, profiles = {} } = JSON.parse(readFileSync(file, "utf8")) as Partial<Profiles>;
    return { current, profiles };
  } catch {
    throw new ExitError(`${file} is not valid JSON. Mend it or remove it.`, 2);
  }
}

export function writeProfiles(profiles: Profiles): void {
  const file = profilesFile();
  try {
    mkdirSync(join(file, ".."), { recursive: true, mode: 0o700 });
    writeFileAtomically(file, `${JSON.stringify(profiles, null, 2)}\n`);
  } catch (error) {
    throw new ExitError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

export function saveProfile(name: string, profile: Profile): void {
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(name))
    throw new ExitError("A profile's name is 1 to 64 of A-Z, a-z, 0-9, . _ -", 2);
  const all = readProfiles();
  writeProfiles({ current: name, profiles: { ...all.profiles, [name]: profile } });
}

/** The profile that is asked for, else the current one, with its name. */
export function findProfile(asked: string | undefined): { name: string; profile: Profile } | undefined {
  const { current, profiles } = readProfiles();
  const name = asked ?? process.env.KEYRACK_PROFILE ?? current ?? undefined;
  const profile = name === undefined ? undefined : Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (name !== undefined && !profile && name !== current)
    throw new ExitError(`There is no profile "${name}". Run: keyrack profile list`, 2);
  return name !== undefined && profile ? { name, profile } : undefined;
}
