// Telemetry, usage and its push to a metering system.
import { count, durationWithin, endpoint, integer, onOff, path } from "../parsers.ts";
import { setting } from "../setting.ts";

export const usageSettings = {
  ingest_events_per_minute: setting(count, "120000", "Maximum number of telemetry events per minute and workspace."),
  series: setting(
    onOff,
    "on",
    "off = no usage series and no usage export: telemetry is only counted per key and day, and per tenant and month.",
  ),
  series_minutes: setting(durationWithin("1h", "7d"), "48h", "How long usage by minute is kept, 1h to 7d."),
  series_hours: setting(durationWithin("2d", "400d"), "35d", "How long usage by hour is kept, 2d to 400d."),
  series_routes: setting(
    integer(0, 2_000),
    "200",
    "Maximum number of distinct routes per project, environment and UTC day, 0 to 2000; further ones are counted together.",
  ),
  last_used_detail: setting(
    onOff,
    "on",
    "off = do not store the network and user agent of a key's last use; stored ones are deleted within the hour.",
  ),
  meter_url: setting(
    endpoint,
    "",
    "http:// or https:// endpoint that takes usage by tenant and hour as batches of CloudEvents; unset = no push.",
  ),
  meter_token_file: setting(path, "", "File with the bearer token for KEYRACK_METER_URL, read for each request."),
  meter_settle: setting(
    durationWithin("1s", "7d"),
    "15m",
    "Delay before an hour of usage is pushed, after it ends or after a late report; 1s to 7d.",
  ),
} as const;
