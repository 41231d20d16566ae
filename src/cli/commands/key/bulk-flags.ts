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

export const FILTERS: Record<string, { name: string; option: () => Option }> = {
  ids: { name: "ids", option: () => new Option("--ids <id>", "only this key; repeatable").argParser(collectValues) },
  projectId: { name: "project_id", option: () => new Option("--project-id <id>", "only keys of this project") },
  tenantId: {
    name: "tenant_id",
    option: () => new Option("--tenant-id <id>", "only keys of this tenant; repeatable").argParser(collectValues),
  },
  env: { name: "env", option: () => new Option("--env <env>", "only this environment").choices(["live", "test"]) },
  scope: { name: "scope", option: () => new Option("--scope <scope>", "only keys with this scope") },
  prefix: { name: "prefix", option: () => new Option("--prefix <prefix>", "only keys created with this prefix") },
  state: {
    name: "state",
    option: () => new Option("--state <state>", "only keys in this state").choices(BULK_STATES),
  },
  createdBefore: {
    name: "created_before",
    option: () => new Option("--created-before <time>", "only keys created before this time, ISO 8601"),
  },
  createdAfter: {
    name: "created_after",
    option: () => new Option("--created-after <time>", "only keys created after this time, ISO 8601"),
  },
  unusedSince: {
    name: "unused_since",
    option: () =>
      new Option("--unused-since <time>", "only keys last used before this time, or never used and created before it"),
  },
  all: { name: "all", option: () => new Option("--all", "every key; only with --env and --state") },
};

const number =
  (flag: string) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) throw new ExitError(`--${flag} must be a number.`, 2);
    return value;
  };

export const FIELDS: Record<string, { name: keyof BulkBody; option: () => Option }> = {
  reason: {
    name: "reason",
    option: () => new Option("--reason <text>", "revoke and disable: reason, stored with each key"),
  },
  overlapHours: {
    name: "overlap_hours",
    option: () =>
      new Option("--overlap-hours <hours>", "rotate: how long the old keys keep working; 24 by default").argParser(
        number("overlap-hours"),
      ),
  },
  graceDays: {
    name: "grace_days",
    option: () =>
      new Option(
        "--grace-days <days>",
        "cap_expiry: days that every key keeps working at least; 30 by default",
      ).argParser(number("grace-days")),
  },
  limit: {
    name: "limit",
    option: () =>
      new Option("--limit <keys>", "keys per transaction, up to 500; 200 by default").argParser(number("limit")),
  },
};

export function bodyOf(options: KeyBulkOptions): BulkBody {
  const given = (table: typeof FILTERS) =>
    Object.fromEntries(
      Object.entries(table).flatMap(([key, { name }]) => (options[key] === undefined ? [] : [[name, options[key]]])),
    );
  return { filter: given(FILTERS), ...given(FIELDS) };
}
