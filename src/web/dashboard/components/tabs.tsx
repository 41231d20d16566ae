// Tabs with arrow keys, Home and End. One panel is in the page at a time.
import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { isPlainKey } from "./keyboard.ts";

type TabsProps<T extends string> = {
  label: string;
  tabs: readonly (readonly [value: T, label: string])[];
  chosen: T;
  onChoose: (value: T) => void;
  children: ComponentChildren;
};

export function Tabs<T extends string>({ label, tabs, chosen, onChoose, children }: TabsProps<T>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const at = tabs.findIndex(([value]) => value === chosen);
  const onKeyDown = (event: KeyboardEvent): void => {
    const last = tabs.length - 1;
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[
      event.key
    ];
    const tab = next === undefined ? undefined : tabs[next];
    if (!tab || next === undefined || !isPlainKey(event)) return;
    event.preventDefault();
    onChoose(tab[0]);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="tabs">
      <div ref={list} role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map(([value, text]) => (
          <button
            key={value}
            type="button"
            role="tab"
            id={`${id}-${value}`}
            aria-selected={value === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={value === chosen ? 0 : -1}
            onClick={() => onChoose(value)}
          >
            {text}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`}>
        {children}
      </div>
    </div>
  );
}
