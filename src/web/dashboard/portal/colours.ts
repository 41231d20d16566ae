// The colours of the portal that a page can set, and the CSS that sets them.

/** Name of the property after `--keyrack-`, label, and its value in the light and in the dark theme. */
export const COLOURS = [
  ["accent", "Accent", "#2f55d4", "#93adff"],
  ["on-accent", "Text on the accent", "#ffffff", "#0f1420"],
  ["text", "Text", "#1b1f24", "#e9ebef"],
  ["muted", "Muted text", "#59616d", "#a3abb8"],
  ["surface", "Surface", "#ffffff", "#17191e"],
  ["raised", "Raised surface", "#f6f7f9", "#1f2228"],
  ["border", "Border", "#dfe3e8", "#31363f"],
  ["control", "Border of fields", "#838b98", "#7d8694"],
  ["danger", "Danger", "#b3261e", "#ff9d94"],
  ["on-danger", "Text on danger", "#ffffff", "#2a0805"],
  ["bad-bg", "Background of errors", "#fdecea", "#3a1916"],
  ["good", "Active", "#11663a", "#84dca8"],
  ["good-bg", "Background of active", "#e5f5eb", "#143222"],
  ["warn", "Warning", "#7a4b00", "#f0c673"],
  ["warn-bg", "Background of warnings", "#fdf2dc", "#352a12"],
  ["bar", "Bars of usage", "#5b7be0", "#7d99f5"],
] as const;

/** By name; those that are not in it keep the theme's value. */
export type Colours = Readonly<Record<string, string>>;

/** The properties that are set: `--keyrack-accent` and its value. */
export const colourProperties = (colours: Colours): [property: string, value: string][] =>
  Object.entries(colours).map(([name, value]) => [`--keyrack-${name}`, value]);
