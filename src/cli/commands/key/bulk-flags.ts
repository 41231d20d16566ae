// The flags of `keyrack key bulk`, and the request that they make.
import { Option } from "commander";
import { BULK_STATES } from "../../../kernel/bulk-actions.ts";
import type { TargetOptions } from "../../api/target.ts";
import { collectValues, ExitError, type OutputOptions } from "../../ui/output.ts";

export type KeyBulkOptions = TargetOptions &
  OutputOptions & { dryRun?: true; yes?: true; wait?: true; out?: string; resume?: string } & Record<string, unknown>;

/** The body of the request without what differs from call to call. */
export type BulkBody = {
  filter: Record<string, unknown>;
  reason?: string;
  overlap_hours?: number;
  grace_days?: number;
  limit?: number;
};

/** The most that one call may change. */
export const KEYS_MAX = 500;

const number =
  (flag: string) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) throw new ExitError(`--${flag} must be a number.`, 2);
    return value;
  };

/** A dry run sends another limit, and must not accept what the run refuses. */
function keysPerCall(text: string): number {
  const keys = number("limit")(text);
  if (Number.isInteger(keys) && keys >= 1 && keys <= KEYS_MAX) return keys;
  throw new ExitError(`--limit must be a whole number from 1 to ${KEYS_MAX}.`, 2);
}

/** Named as the fields of the filter. */
export const FILTERS: readonly Option[] = [
  new Option("--ids <id>", "only this key; repeatable").argParser(collectValues),
  new Option("--project-id <id>", "only keys of this project"),
  new Option("--tenant-id <id>", "only keys of this tenant; repeatable").argParser(collectValues),
  new Option("--env <env>", "only this environment").choices(["live", "test"]),
  new Option("--scope <scope>", "only keys with this scope"),
  new Option("--prefix <prefix>", "only keys created with this prefix"),
  new Option("--state <state>", "only keys in this state").choices(BULK_STATES),
  new Option("--created-before <time>", "only keys created before this time, ISO 8601"),
  new Option("--created-after <time>", "only keys created after this time, ISO 8601"),
  new Option("--unused-since <time>", "only keys created before this time and not used since"),
  new Option("--all", "every key; only with --env and --state"),
];

/** Named as the other fields of the request. */
export const FIELDS: readonly Option[] = [
  new Option("--reason <text>", "revoke and disable: reason, stored with each key"),
  new Option("--overlap-hours <hours>", "rotate: how long the old keys keep working; 24 by default").argParser(
    number("overlap-hours"),
  ),
  new Option("--grace-days <days>", "cap_expiry: days that every key keeps working at least; 30 by default").argParser(
    number("grace-days"),
  ),
  new Option("--limit <keys>", "keys per transaction, up to 500; 200 by default").argParser(keysPerCall),
];

/** `--ids[0]` for filter.ids[0]. Other fields of the request have no flag. */
export function flagOf(path: string): string {
  const [field = "", rest = ""] = path.replace(/^filter\./, "").split(/(?=\[)/);
  const flag = [...FILTERS, ...FIELDS].find((each) => each.name() === field.replaceAll("_", "-"));
  return flag?.long ? flag.long + rest : path;
}

export function bodyOf(options: KeyBulkOptions): BulkBody {
  const given = (flags: readonly Option[]): Record<string, unknown> => {
    const set = flags.filter((flag) => options[flag.attributeName()] !== undefined);
    return Object.fromEntries(set.map((flag) => [flag.name().replaceAll("-", "_"), options[flag.attributeName()]]));
  };
  return { filter: given(FILTERS), ...given(FIELDS) };
}
