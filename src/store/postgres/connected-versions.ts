// The versions of Keyrack that are connected to a PostgreSQL database. Each process names its version in its
// connections, so that the others know what it understands.
import { VERSION } from "../../platform/version.ts";

export const APPLICATION_NAME = `keyrack/${VERSION}`;
/** The name before it contained the version. */
const UNVERSIONED = "keyrack";
const UNVERSIONED_RELEASE = "0.1";

/** Matches the connections of servers and operator commands, not those that only verify or copy. */
export const IS_KEYRACK = `datname = current_database()
  and (application_name = '${UNVERSIONED}' or application_name like '${UNVERSIONED}/%')`;

export const READ_CONNECTED = `select distinct application_name as name from pg_stat_activity where ${IS_KEYRACK}`;

/** Ascending, without duplicates. */
export function toVersions(rows: readonly { name: string }[]): string[] {
  const versions = rows.map(({ name }) =>
    name === UNVERSIONED ? UNVERSIONED_RELEASE : name.slice(UNVERSIONED.length + 1),
  );
  return [...new Set(versions)].toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
