// Profiles: server URLs with their credentials, in ~/.config/keyrack/profiles.json, readable by the owner only.
// A profile's credential is sent to that profile's URL and to no other.
import { existsSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { createDir, writeFileAtomically } from "../../platform/fsync.ts";
import { ExitError, fileError } from "../ui/output.ts";

export type Profile = { url: string; secret_key?: string; session_token?: string; about?: string };
export type Profiles = { current: string | null; profiles: Record<string, Profile> };

/**
 * Null where HOME names no folder: a relative one would put secret keys into the working folder, which may be a
 * checkout. A relative XDG_CONFIG_HOME is ignored, as its specification demands.
 */
function profilesFile(): string | null {
  const { XDG_CONFIG_HOME = "" } = process.env;
  const config = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(homeFolder(), ".config");
  return isAbsolute(config) ? join(config, "keyrack", "profiles.json") : null;
}

/** Empty for a user without HOME and without a line in /etc/passwd, as in a container. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

/** Call it before a request whose response is to be saved. */
export function requireSavable(name: string): string {
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(name))
    throw new ExitError("A profile name has 1 to 64 letters, digits, dots, underscores or hyphens.", 2);
  const file = profilesFile();
  if (file === null) throw new ExitError("HOME is not an absolute path. Set it to a folder for profiles.", 2);
  return file;
}

export function readProfiles(): Profiles {
  const file = profilesFile();
  if (file === null || !existsSync(file)) return { current: null, profiles: {} };
  if ((statSync(file).mode & 0o077) !== 0)
    throw new ExitError(`${file} is readable by others. Run: chmod 600 ${file}`, 2);
  let read: Partial<Profiles> | null;
  try {
    read = JSON.parse(readFileSync(file, "utf8")) as Partial<Profiles> | null;
  } catch {
    throw new ExitError(`${file} is not valid JSON. Fix or remove it.`, 2);
  }
  const { current = null, profiles = {} } = read ?? {};
  const broken = Object.entries(profiles).find(([, profile]) => typeof (profile as Profile | null)?.url !== "string");
  if (broken) throw new ExitError(`${file}: the profile "${broken[0]}" has no URL. Fix or remove it.`, 2);
  return { current, profiles };
}

function writeProfiles(name: string, profiles: Profiles): void {
  const file = requireSavable(name);
  try {
    createDir(dirname(file));
    writeFileAtomically(file, `${JSON.stringify(profiles, null, 2)}\n`);
  } catch (error) {
    throw fileError("write", file, error);
  }
}

/** Saves a profile and makes it the current one. */
export function saveProfile(name: string, profile: Profile): void {
  writeProfiles(name, { current: name, profiles: { ...readProfiles().profiles, [name]: profile } });
}

/** The profile that --save writes: the named one, else the one in KEYRACK_PROFILE, else `default`. */
export function profileToSave(named: string | undefined): { name: string; existing: Profile | undefined } {
  const name = named || process.env.KEYRACK_PROFILE || "default";
  requireSavable(name);
  const { profiles } = readProfiles();
  return { name, existing: Object.hasOwn(profiles, name) ? profiles[name] : undefined };
}

/**
 * A secret key may replace one of the same server, but neither a person's session nor what belongs to another server,
 * which may be the only copy. Call it before the request.
 */
export function requireReplaceable({ name, existing }: ReturnType<typeof profileToSave>, url: string): void {
  if (!existing || (sameServer(existing.url, url) && !existing.session_token)) return;
  const held = existing.session_token ? "a session" : `a credential of ${existing.url}`;
  throw new ExitError(
    `Profile "${name}" holds ${held}. Save in another with --profile, or remove it: keyrack profile remove ${name}`,
    2,
  );
}

export const sameServer = (a: string, b: string): boolean => a.replace(/\/+$/, "") === b.replace(/\/+$/, "");

/** Saves a new secret key. Call it after the key was printed: the server shows it once. */
export function saveNewKey(name: string, profile: Profile): void {
  try {
    saveProfile(name, profile);
  } catch (error) {
    throw new ExitError(`The secret key above is not saved in a profile. ${(error as Error).message}`, 1);
  }
}

export function selectProfile(name: string): void {
  requireProfile(name);
  writeProfiles(name, { ...readProfiles(), current: name });
}

export function removeProfile(name: string): void {
  requireProfile(name);
  const { current, profiles } = readProfiles();
  const { [name]: _removed, ...others } = profiles;
  writeProfiles(name, { current: current === name ? null : current, profiles: others });
}

const notFound = (name: string): ExitError =>
  new ExitError(`There is no profile "${name}". Run: keyrack profile list`, 2);

function requireProfile(name: string): void {
  if (!Object.hasOwn(readProfiles().profiles, name)) throw notFound(name);
}

/** The named profile, else the one in KEYRACK_PROFILE, else the current one; null asks for the current one. */
export function findProfile(wanted: string | null | undefined): { name: string; profile: Profile } | undefined {
  const { current, profiles } = readProfiles();
  const name = (wanted === null ? current : wanted || process.env.KEYRACK_PROFILE || current) ?? undefined;
  const profile = name === undefined ? undefined : Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (name !== undefined && !profile && name !== current) throw notFound(name);
  return name !== undefined && profile ? { name, profile } : undefined;
}
