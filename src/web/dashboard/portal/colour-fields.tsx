// A field for each colour of the portal.
import { COLOURS, type Colours } from "./colours.ts";

type Props = { theme: string; colours: Colours; onChange: (colours: Colours) => void };

export function ColourFields({ theme, colours, onChange }: Props) {
  return (
    <details class="more">
      <summary>Colours</summary>
      <div class="preview-controls">
        {COLOURS.map(([name, label, light, dark]) => (
          <label key={name} class="field">
            <span class="field-label">{label}</span>
            <input
              type="color"
              value={colours[name] ?? (theme === "dark" ? dark : light)}
              onChange={(event) => onChange({ ...colours, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
      </div>
    </details>
  );
}
