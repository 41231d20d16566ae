// Loads the server's settings for a command: flags, environment and keyrack.toml.
import { loadSettings, type Loaded, type SettingTexts } from "../config/load.ts";

type Input = Parameters<typeof loadSettings>[0];

/** Turns commander's camelCase options into settings. Options that are no settings are ignored by the loader. */
function settingFlags(options: Record<string, unknown>): SettingTexts {
  const entries = Object.entries(options).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(entries.map(([name, value]) => [snakeCase(name), value]));
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** `input` replaces where settings are read from; flags win over it. */
export function readSettings(options: { config?: string }, input: Partial<Input> = {}): Loaded {
  return loadSettings({
    env: process.env,
    configFile: options.config,
    ...input,
    flags: { ...input.flags, ...settingFlags(options) },
  });
}
