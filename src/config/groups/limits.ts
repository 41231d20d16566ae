// Limits of what customers share. The defaults suit most deployments.
import { MIB } from "../../kernel/sizes.ts";
import { count, integer, megabytes, onOff, optional, zeroOrCount, zeroOrMegabytes } from "../parsers.ts";
import { setting } from "../setting.ts";

export const limitsSettings = {
  vendor_per_minute: setting(
    zeroOrCount,
    "0",
    "Maximum number of requests per minute and credential; 0 = unlimited. Those of the library count too: above it a node enforces no rate limits and learns of revocations late.",
  ),
  throttle: setting(onOff, "on", "off = no throttling of logins and other requests, for throwaway instances."),
  throttle_subjects: setting(
    integer(100, 10_000_000),
    "200000",
    "Maximum number of throttle windows in memory. When it is reached, the owner with the most windows loses one, and new windows for networks are refused.",
  ),
  writes_mb_per_day: setting(
    zeroOrMegabytes,
    "8192",
    "MiB that a workspace may write per UTC day in live; in test, a quarter of it. 0 = unlimited.",
  ),
  disk_reserve_mb: setting(
    zeroOrMegabytes,
    "1024",
    "Free disk space to keep, in MiB (SQLite). Below it, writes of the workspaces that wrote the most get 503; below 200 MiB all writes do, except those that end a credential, such as revocations. 0 turns off both limits.",
  ),
  ratelimit_counters: setting(
    integer(1_000, 100_000_000),
    "1000000",
    "Memory for rate-limit counters in this process, in slots of 165 bytes: 1 per fixed counter, 2 per sliding counter, 10 per rule.",
  ),
  ratelimit_counters_per_workspace: setting(
    integer(100, 100_000_000),
    "100000",
    "Maximum number of rate-limit counters per workspace and environment; beyond it, new ids share one counter per rule.",
  ),
  snapshot_max_keys: setting(count, "10000", "Maximum number of keys per page of the policy feed."),
  answer_max_bytes: setting(
    integer(256 * 1024, 64 * MIB),
    "8388608",
    "A page of a list or of the policy feed ends at this many bytes of JSON, 262144 to 67108864.",
  ),
  connections_max: setting(
    integer(16, 1_000_000),
    "10000",
    "Maximum number of open connections. Beyond it, a new connection replaces the oldest one of the network that has the most.",
  ),
  max_waiting: setting(
    optional(integer(1, 1_000_000)),
    "",
    "Maximum number of waiting long polls; beyond it, polls get their response early. Unset = 90 % of KEYRACK_CONNECTIONS_MAX.",
  ),
  send_stall_ms: setting(
    integer(500, 600_000),
    "10000",
    "Close a connection whose client reads less than 64 KiB of the response within this time, in milliseconds.",
  ),
  unsent_mb: setting(
    megabytes,
    "64",
    "Memory for large responses that clients have not read yet, in MiB; one workspace and environment may use a quarter of it.",
  ),
  bodies_mb: setting(
    megabytes,
    "64",
    "Memory for large request bodies that are being received, in MiB; one workspace and environment may use a quarter of it.",
  ),
} as const;
