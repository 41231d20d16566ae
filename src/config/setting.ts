// A row of the settings table.
import type { SettingKind } from "./parsers.ts";

export type Setting = {
  /** The environment variable. The key in keyrack.toml is the same name without KEYRACK_, in lower case. */
  readonly env: string;
  /** How its text is parsed and validated. */
  readonly kind: SettingKind;
  /** As text; empty = unset. */
  readonly defaultText: string;
  readonly description: string;
  /** Hidden by `keyrack config show`. */
  readonly secret?: boolean;
};

export const setting = <const K extends SettingKind>(
  env: string,
  kind: K,
  defaultText: string,
  description: string,
  { secret = false } = {},
): Setting & { kind: K } => ({ env, kind, defaultText, description, secret });
