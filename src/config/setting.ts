// A row of the settings table.
import type { SettingKind } from "./parsers.ts";

export type Setting = {
  /** How its text is parsed and validated. */
  readonly kind: SettingKind;
  /** As text; empty = unset. */
  readonly defaultText: string;
  readonly description: string;
  /** Hidden by `keyrack config show`. */
  readonly secret?: boolean;
};

export const setting = <const K extends SettingKind>(
  kind: K,
  defaultText: string,
  description: string,
  { secret = false } = {},
): Setting & { kind: K } => ({ kind, defaultText, description, secret });
