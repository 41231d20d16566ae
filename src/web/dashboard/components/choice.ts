// One of two or three ways, as radio buttons side by side.
import { freshId, h } from "../dom.ts";

export function choice<T extends string>(
  legend: string,
  options: readonly (readonly [value: T, label: string])[],
  chosen: T,
  turn: (value: T) => void,
): HTMLFieldSetElement {
  const name = freshId("choice");
  const option = ([value, label]: readonly [T, string]): HTMLElement => {
    const input = h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => turn(value) });
    return h("label", {}, input, h("span", {}, label));
  };
  return h("fieldset", { class: "choice" }, h("legend", { class: "hide" }, legend), ...options.map(option));
}
