// How the dashboard behaves in this browser.
import { CheckField, SelectField } from "../forms/field.tsx";
import { Panel } from "../components/page.tsx";
import { IDLE_CHOICES, idleMinutes, setIdleMinutes } from "../shell/idle.ts";
import { setShortcuts, shortcutsOn } from "../shell/shortcut-setting.ts";
import { setTheme, theme, THEMES } from "../shell/theme.ts";

export function BrowserSettings() {
  return (
    <Panel title="This browser">
      <SelectField
        name=""
        label="Theme"
        value={theme.value}
        options={THEMES}
        onChange={(value) => setTheme(THEMES.find(([name]) => name === value)?.[0] ?? "system")}
      />
      <SelectField
        name=""
        label="Lock the page when idle"
        value={String(idleMinutes.value)}
        options={IDLE_CHOICES.map(([minutes, label]) => [String(minutes), label] as const)}
        onChange={(value) => setIdleMinutes(Number(value))}
      />
      <CheckField label="Keyboard shortcuts" checked={shortcutsOn.value} onChange={setShortcuts} />
    </Panel>
  );
}
