// The settings of PostgreSQL that durability depends on.
const VERSION_MIN = 150_000;

export const SELECT_SERVER_SETTINGS =
  "select name, setting from pg_settings where name in ('server_version_num','fsync','full_page_writes','synchronous_commit','data_checksums')";

export type ServerSetting = { name: string; setting: string };

/** Throws if a commit could be lost. Returns warnings. */
export function checkServerSettings(rows: readonly ServerSetting[]): string[] {
  const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
  if (Number(settings.server_version_num) < VERSION_MIN) throw new Error("PostgreSQL 15 or newer is required");
  for (const name of ["fsync", "full_page_writes"]) {
    if (settings[name] !== "on") throw new Error(`PostgreSQL runs with ${name}=${settings[name]}: it must be on`);
  }
  if (settings.synchronous_commit === "off")
    throw new Error("PostgreSQL runs with synchronous_commit=off: it must be on");
  return settings.data_checksums === "off" ? ["PostgreSQL runs without data checksums"] : [];
}
