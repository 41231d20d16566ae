// How the dashboard behaves in this browser.
import { CheckField } from "../forms/field.tsx";
import { Panel } from "../components/page.tsx";
import { IDLE_CHOICES, idleMinutes, setIdleMinutes } from "../shell/idle.ts";
import { setShortcuts, shortcutsOn } from "../shell/shortcut-setting.ts";
import { setTheme, theme, THEMES } from "../shell/theme.ts";

type SelectProps = {
  label: string;
  value: string;
  options: readonly (readonly [value: string, label: string])[];
  onChange: (value: string) => void;
};

function Setting({ label, value, options, onChange }: SelectProps) {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      <select onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([option, text]) => (
          <option key={option} value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function BrowserSettings() {
  return (
    <Panel title="This browser">
      <Setting
        label="Theme"
        value={theme.value}
        options={THEMES}
        onChange={(value) => setTheme(THEMES.find(([name]) => name === value)?.[0] ?? "system")}
      />
      <Setting
        label="Lock the page when idle"
        value={String(idleMinutes.value)}
        options={IDLE_CHOICES.map(([minutes, label]) => [String(minutes), label] as const)}
        onChange={(value) => setIdleMinutes(Number(value))}
      />
      <CheckField label="Keyboard shortcuts" checked={shortcutsOn.value} onChange={setShortcuts} />
    </Panel>
  );
}
