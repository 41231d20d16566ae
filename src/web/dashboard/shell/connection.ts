// Asks a server that stopped responding every few seconds whether it responds, then refreshes what is on the screen. A
// page that does not poll learns from the browser that the connection is gone.
import { effect } from "@preact/signals";
import { call, offlineSince } from "../api/call.ts";
import { refreshReads } from "../api/query.ts";

const ASK_MS = 2_000;

function ask(): void {
  if (!document.hidden) void call("GET /status", {}, { token: null }).catch(() => {});
}

export function watchConnection(): void {
  addEventListener("offline", ask);
  effect(() => {
    if (offlineSince.value === null) return;
    const timer = setInterval(ask, ASK_MS);
    addEventListener("online", ask);
    return () => {
      clearInterval(timer);
      removeEventListener("online", ask);
      refreshReads();
    };
  });
}
