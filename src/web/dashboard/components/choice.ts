// A group of radio buttons, side by side.
import { h, uniqueId } from "../../shared/dom.ts";

export function choice<T extends string>(
  legend: string,
  options: readonly (readonly [value: T, label: string])[],
  selected: T,
  onChange: (value: T) => void,
): HTMLFieldSetElement {
  const name = uniqueId("choice");
  const option = ([value, label]: readonly [T, string]): HTMLElement => {
    const onchange = (): void => onChange(value);
    const input = h("input", { type: "radio", name, value, checked: value === selected, onchange });
    return h("label", {}, input, h("span", {}, label));
  };
  return h("fieldset", { class: "choice" }, h("legend", { class: "hide" }, legend), ...options.map(option));
}
