// The switch between live and test data. It keeps the page and its filters.
import { env, hrefInEnv } from "../links.ts";
import { go, place } from "../routes.ts";

const ENVIRONMENTS = [
  ["live", "Live"],
  ["test", "Test"],
] as const;

export function EnvironmentSwitch() {
  if (place.value.kind !== "workspace") return null;
  return (
    <div class={`environment ${env.value}`} role="radiogroup" aria-label="Environment">
      {ENVIRONMENTS.map(([value, label]) => (
        <label key={value}>
          <input
            type="radio"
            name="environment"
            value={value}
            checked={env.value === value}
            onChange={({ currentTarget }) => {
              // The page may refuse to leave: the switch follows the address.
              for (const radio of currentTarget.closest("div")?.querySelectorAll("input") ?? [])
                radio.checked = radio.value === env.value;
              go(hrefInEnv(value));
            }}
          />
          <span>{label}</span>
        </label>
      ))}
    </div>
  );
}
