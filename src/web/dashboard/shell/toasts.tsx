// Short confirmations. They leave by themselves, wait while the pointer or the focus is on them, and stay listed in the
// account menu. Nothing that needs an answer is a toast.
import { signal } from "@preact/signals";
import { serverNow } from "../api/clock.ts";
import { onForget } from "../api/session.ts";

const SHOWN_MS = 6_000;
const LISTED_MAX = 20;

type Toast = { id: number; text: string; at: number };

export const notifications = signal<readonly Toast[]>([]);
const shown = signal<readonly Toast[]>([]);
const paused = signal(false);
let lastId = 0;

function hideLater(id: number): void {
  setTimeout(() => {
    if (paused.value) hideLater(id);
    else shown.value = shown.value.filter((toast) => toast.id !== id);
  }, SHOWN_MS);
}

onForget(() => {
  notifications.value = shown.value = [];
});

/** `isShown` is false where a dialog follows that says the same: a toast would be behind it. */
export function toast(text: string, isShown = true): void {
  const next = { id: ++lastId, text, at: serverNow() };
  notifications.value = [next, ...notifications.value].slice(0, LISTED_MAX);
  if (!isShown) return;
  shown.value = [...shown.value, next].slice(-3);
  hideLater(next.id);
}

export function Toasts() {
  const pause = (on: boolean) => () => {
    paused.value = on;
  };
  return (
    <div
      class="toasts"
      role="status"
      onMouseEnter={pause(true)}
      onMouseLeave={pause(false)}
      onFocusCapture={pause(true)}
      onBlurCapture={pause(false)}
    >
      {shown.value.map(({ id, text }) => (
        <p key={id} class="toast">
          <bdi>{text}</bdi>
        </p>
      ))}
    </div>
  );
}
