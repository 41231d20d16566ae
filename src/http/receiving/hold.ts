// Stops the reading of a socket: what its client sends stays in the buffers of the operating system.
// Caution: a socket that is not read does not notice that its client has left; node has no other event for it.
import type { Socket } from "node:net";

const HOLDS = Symbol("holds");
type HeldSocket = Socket & { [HOLDS]?: number };

/** The socket is read again once all of its holds were released. A release may be called more than once. */
export function hold(socket: HeldSocket): () => void {
  // Node resumes a socket by itself, as after each request that it has parsed.
  if (socket[HOLDS] === undefined) socket.on("resume", () => socket[HOLDS] && socket.pause());
  socket[HOLDS] = (socket[HOLDS] ?? 0) + 1;
  socket.pause();
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    socket[HOLDS] = (socket[HOLDS] ?? 1) - 1;
    if (socket[HOLDS] === 0) socket.resume();
  };
}
