// The part of the settings table about telemetry and usage.
import { setting } from "./setting.ts";

export const usageSettings = {
  ingest_events_per_minute: setting(
    "KEYRACK_INGEST_EVENTS_PER_MINUTE",
    "count",
    "120000",
    "Telemetry events per minute and workspace.",
  ),
  series: setting(
    "KEYRACK_SERIES",
    "switch",
    "on",
    "off = no usage series and no usage export: telemetry is counted per key and day, and per tenant and month only.",
  ),
  series_minutes: setting(
    "KEYRACK_SERIES_MINUTES",
    "series_minutes",
    "48h",
    "How long usage by minute is kept, 1h to 7d.",
  ),
  series_hours: setting("KEYRACK_SERIES_HOURS", "series_hours", "35d", "How long usage by hour is kept, 2d to 400d."),
  series_routes: setting(
    "KEYRACK_SERIES_ROUTES",
    "series_routes",
    "200",
    "Routes of a project, environment and UTC day that usage distinguishes, 0 to 2000; more are counted together.",
  ),
  last_used_detail: setting(
    "KEYRACK_LAST_USED_DETAIL",
    "switch",
    "on",
    "off = the network and user agent of a key's last use are not stored; what is stored is deleted within the hour.",
  ),
  meter_url: setting(
    "KEYRACK_METER_URL",
    "endpoint",
    "",
    "http:// or https:// endpoint that takes usage by tenant and hour as batches of CloudEvents; unset = no push.",
  ),
  meter_token_file: setting(
    "KEYRACK_METER_TOKEN_FILE",
    "path",
    "",
    "File with the bearer token for KEYRACK_METER_URL, read for each request.",
  ),
  meter_settle: setting(
    "KEYRACK_METER_SETTLE",
    "meter_settle",
    "15m",
    "How long after its end, or after a late report, an hour is pushed, 1s to 7d.",
  ),
} as const;
