// The only file that touches Web Storage. Names start with the path that the page is served under, so that two
// instances behind one origin share nothing. Browsers may refuse storage; the dashboard then works without it.
const prefix = `keyrack:${location.pathname}:`;

/** What is kept for this browser. Nothing here is a credential. */
type Setting = "theme" | "idle_minutes" | "shortcuts" | "active_at" | `checklist:${string}` | `audit:${string}`;

/** Name of the channel on which the tabs of this browser talk to each other. */
export const TABS_CHANNEL = `${prefix}tabs`;

function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}

function write(storage: () => Storage, name: string, value: string | null): void {
  attempt(() => (value === null ? storage().removeItem(prefix + name) : storage().setItem(prefix + name, value)));
}

export const readSetting = (name: Setting): string | null => attempt(() => localStorage.getItem(prefix + name));

export function writeSetting(name: Setting, value: string | null): void {
  write(() => localStorage, name, value);
}

/** Calls when another tab has changed a setting. */
export function onSettingsChange(changed: () => void): void {
  addEventListener("storage", changed);
}

/** Kept until this tab is closed: the session, so that a reload does not log out. */
export const readTab = (name: "session"): string | null => attempt(() => sessionStorage.getItem(prefix + name));

export function writeTab(name: "session", value: string | null): void {
  write(() => sessionStorage, name, value);
}
