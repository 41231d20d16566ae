// The settings table: name, parser, default and description of every setting, by group. The loader, docs/configure.md,
// `keyrack config` and the flags of `keyrack serve` read it. To add a setting, add a line to its group.
import { ExitError } from "../kernel/exit-error.ts";
import type { Setting } from "./setting.ts";
import { advancedSettings } from "./groups/advanced.ts";
import { backupsSettings } from "./groups/backups.ts";
import { basicsSettings } from "./groups/basics.ts";
import { keysSettings } from "./groups/keys.ts";
import { limitsSettings } from "./groups/limits.ts";
import { networkSettings } from "./groups/network.ts";
import { peopleSettings } from "./groups/people.ts";
import { storageSettings } from "./groups/storage.ts";
import { usageSettings } from "./groups/usage.ts";

/** By title, in the order in which documents and commands print them. */
const settingGroups = {
  Basics: basicsSettings,
  "Network and TLS": networkSettings,
  "Database and Redis": storageSettings,
  "Mail and sign-up": peopleSettings,
  Backups: backupsSettings,
  "Keys and nodes": keysSettings,
  "Usage and metering": usageSettings,
  "Limits and fairness": limitsSettings,
  Advanced: advancedSettings,
} as const satisfies Record<string, Record<string, Setting>>;

export const settingsTable = {
  ...basicsSettings,
  ...networkSettings,
  ...storageSettings,
  ...peopleSettings,
  ...backupsSettings,
  ...keysSettings,
  ...usageSettings,
  ...limitsSettings,
  ...advancedSettings,
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof settingsTable;
type Parsed<K extends SettingName> = ReturnType<(typeof settingsTable)[K]["parse"]>;
export type Settings = { readonly [K in SettingName]: Parsed<K> };

export const settingNames = Object.keys(settingsTable) as SettingName[];
export const settingNamesByGroup = Object.entries(settingGroups).map(([title, group]) => ({
  title,
  names: Object.keys(group) as SettingName[],
}));

/** Settings that cannot be used. The message is one line, with a sentence or two for each problem. */
export class BadSetting extends ExitError {
  constructor(message: string) {
    super(message, 2);
  }
}

/** The environment variable of a setting. In keyrack.toml it is written as in the table. */
export const envOf = (name: SettingName): string => `KEYRACK_${name.toUpperCase()}`;
