// Settings of what happens to API keys beside the vendor's own changes.
import { setting } from "./setting.ts";

export const keySettings = {
  holder_plane: setting("KEYRACK_HOLDER_PLANE", "switch", "on", "off = API keys cannot show or end themselves."),
  key_policy_every: setting(
    "KEYRACK_KEY_POLICY_EVERY",
    "duration",
    "1h",
    "Interval between searches for idle keys, where a project revokes them; off = never.",
  ),
} as const;
