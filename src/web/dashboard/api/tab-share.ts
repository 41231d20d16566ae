// Signs in a tab that was opened from a link of a signed-in tab. Browsers do not copy the tab's storage there, so the
// new tab asks the others, and only a tab that saw such a click a moment ago responds, once.
import { session, setSession, type Session } from "./session.ts";
import { TABS_CHANNEL } from "./web-storage.ts";

const CLICK_MS = 10_000;
const WAIT_MS = 300;

type Message = { kind: "ask"; nonce: string } | { kind: "answer"; nonce: string; session: Session };

const channel = new BroadcastChannel(`${TABS_CHANNEL}:sign-in`);
let clickedAt = -Infinity;

/** A click that opens one of our own links in another tab. */
function onClick(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const opensTab = event.ctrlKey || event.metaKey || event.shiftKey || event.button === 1;
  if (link && opensTab && (link.getAttribute("href") ?? "").startsWith("#/")) clickedAt = performance.now();
}

export function answerOtherTabs(): void {
  addEventListener("click", onClick, { capture: true });
  addEventListener("auxclick", onClick, { capture: true });
  channel.addEventListener("message", ({ data }: MessageEvent<Message>) => {
    const current = session.value;
    if (data.kind !== "ask" || !current?.token || performance.now() - clickedAt > CLICK_MS) return;
    clickedAt = -Infinity;
    channel.postMessage({ kind: "answer", nonce: data.nonce, session: current } satisfies Message);
  });
}

/** Waits a moment for another tab's session. Only a tab that a page opened can have one coming. */
export function askOtherTabs(): Promise<void> {
  const nonce = Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(16)).join("");
  return new Promise((resolve) => {
    const onMessage = ({ data }: MessageEvent<Message>): void => {
      if (data.kind !== "answer" || data.nonce !== nonce) return;
      setSession(data.session);
      resolve();
    };
    channel.addEventListener("message", onMessage);
    channel.postMessage({ kind: "ask", nonce } satisfies Message);
    setTimeout(resolve, WAIT_MS);
  });
}
