// A row of the settings table.

export type Setting<T = unknown> = {
  /** Parses and validates its text. */
  readonly parse: (value: string) => T;
  /** As text; empty = unset. */
  readonly defaultText: string;
  readonly description: string;
  /** Hidden by `keyrack config show`. */
  readonly secret?: boolean;
};

export const setting = <T>(
  parse: Setting<T>["parse"],
  defaultText: string,
  description: string,
  { secret = false } = {},
): Setting<T> => ({ parse, defaultText, description, secret });
