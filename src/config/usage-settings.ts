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
} as const;
