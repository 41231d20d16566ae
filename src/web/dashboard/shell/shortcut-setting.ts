// Whether single keys are shortcuts in this browser.
import { signal } from "@preact/signals";
import { readSetting, writeSetting } from "../api/web-storage.ts";

export const shortcutsOn = signal(readSetting("shortcuts") !== "off");

export function setShortcuts(on: boolean): void {
  shortcutsOn.value = on;
  writeSetting("shortcuts", on ? null : "off");
}
