// Light, dark, or as the system has it: an attribute on <html> that the style sheet reads.
import { signal } from "@preact/signals";
import { onSettingsChange, readSetting, writeSetting } from "../api/web-storage.ts";

export const THEMES = [
  ["system", "Same as system"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;
type Theme = (typeof THEMES)[number][0];

const system = matchMedia("(prefers-color-scheme: dark)");

const storedTheme = (): Theme => THEMES.find(([name]) => name === readSetting("theme"))?.[0] ?? "system";

export const theme = signal<Theme>(storedTheme());

function apply(): void {
  const dark = theme.value === "dark" || (theme.value === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

export function setTheme(next: Theme): void {
  theme.value = next;
  writeSetting("theme", next === "system" ? null : next);
  apply();
}

apply();
system.addEventListener("change", apply);
onSettingsChange(() => {
  theme.value = storedTheme();
  apply();
});
// Paper is light.
addEventListener("beforeprint", () => void (document.documentElement.dataset.theme = "light"));
addEventListener("afterprint", apply);
