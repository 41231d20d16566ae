// Settings for another process: relative paths are made absolute, because its working folder may be another one.
import { resolve } from "node:path";
import { path } from "./parsers.ts";
import { settingNames, settingsTable, type Settings } from "./settings.ts";

export function withAbsolutePaths(settings: Settings): Settings {
  const { database_url: database, mail_url: mail } = settings;
  const absolute = settingNames.map((name) => {
    const value = settings[name];
    return [name, settingsTable[name].parse === path && typeof value === "string" && value ? resolve(value) : value];
  });
  return {
    ...(Object.fromEntries(absolute) as Settings),
    ...(database.kind === "sqlite" && { database_url: { ...database, file: resolve(database.file) } }),
    ...(mail.kind === "file" && mail.dir && { mail_url: { ...mail, dir: resolve(mail.dir) } }),
  };
}
