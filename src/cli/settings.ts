// Loads the server's settings for a command: flags, environment and keyrack.toml. A bad setting is exit 2.
import { loadSettings, type Loaded, type SettingTexts } from "../config/load.ts";
import { BadSetting } from "../config/settings.ts";
import { ExitError } from "./ui/output.ts";

type Input = Parameters<typeof loadSettings>[0];

/** Turns commander's camelCase options into settings. Options that are no settings are ignored by the loader. */
function settingFlags(options: Record<string, unknown>): SettingTexts {
  const entries = Object.entries(options).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(entries.map(([name, value]) => [snakeCase(name), value]));
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** `input` replaces where settings are read from; flags win over it. */
export function readSettings(options: { config?: string }, input: Partial<Input> = {}): Loaded {
  return usageErrors(() =>
    loadSettings({
      env: process.env,
      configFile: options.config,
      ...input,
      flags: { ...input.flags, ...settingFlags(options) },
    }),
  );
}

/** A bad setting is the caller's mistake: exit 2. */
export function usageErrors<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    throw error;
  }
}
