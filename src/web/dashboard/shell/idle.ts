// Locks the page after a time without input in any tab of this browser. The session ends at the server; the page stays
// in memory, hidden, until the same person logs in again.
import { effect, signal } from "@preact/signals";
import { session } from "../api/session.ts";
import { lockPage } from "../api/sign-in.ts";
import { onSettingsChange, readSetting, writeSetting } from "../api/web-storage.ts";
import { MINUTE_MS } from "../../../kernel/durations.ts";

export const IDLE_CHOICES = [
  [5, "After 5 minutes"],
  [15, "After 15 minutes"],
  [30, "After 30 minutes"],
  [60, "After an hour"],
  [240, "After 4 hours"],
  [0, "Never"],
] as const;
const DEFAULT_MINUTES = 30;
const CHECK_MS = 10_000;
const WRITE_MS = 5_000;

function storedMinutes(): number {
  const stored = Number(readSetting("idle_minutes") ?? DEFAULT_MINUTES);
  return IDLE_CHOICES.find(([minutes]) => minutes === stored)?.[0] ?? DEFAULT_MINUTES;
}

export const idleMinutes = signal(storedMinutes());
onSettingsChange(() => void (idleMinutes.value = storedMinutes()));

export function setIdleMinutes(minutes: number): void {
  idleMinutes.value = minutes;
  writeSetting("idle_minutes", String(minutes));
}

let writtenAt = 0;

/** Input in one tab counts for all. */
function onInput(): void {
  const now = Date.now();
  // A laptop that wakes up with the page in front has neither focus nor visibility events.
  if (isIdle(now)) return check();
  if (now - writtenAt < WRITE_MS) return;
  writtenAt = now;
  writeSetting("active_at", String(now));
}

const isIdle = (now: number): boolean => {
  const last = Number(readSetting("active_at") ?? writtenAt) || now;
  return idleMinutes.value > 0 && now - last > idleMinutes.value * MINUTE_MS;
};

/** By the clock, because timers stand still while a laptop sleeps. */
function check(): void {
  if (session.value && isIdle(Date.now())) lockPage();
}

export function watchIdle(): void {
  for (const type of ["pointerdown", "keydown", "wheel"])
    addEventListener(type, onInput, { passive: true, capture: true });
  for (const type of ["focus", "pageshow"]) addEventListener(type, check);
  document.addEventListener("visibilitychange", check);
  setInterval(check, CHECK_MS);
  // A reload is no input: a session that was idle before it stays so.
  check();
  let token = session.value?.token;
  // A login is input, whatever was before it. Other changes of the session are not.
  effect(() => {
    const before = token;
    token = session.value?.token;
    if (!token || token === before) return;
    writtenAt = Date.now();
    writeSetting("active_at", String(writtenAt));
  });
}
