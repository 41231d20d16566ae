// Notices that the server has newer pages than this tab. Nothing is reloaded by itself.
import { signal } from "@preact/signals";
import { call } from "../api/call.ts";
import { session } from "../api/session.ts";

const CHECK_MS = 300_000;

export const newBuild = signal(false);

/** The build that this page belongs to. */
const own = document.querySelector<HTMLMetaElement>("meta[name=build]")?.content;
let checkedAt = -Infinity;

async function check(): Promise<void> {
  if (!session.value || document.hidden || performance.now() - checkedAt < CHECK_MS) return;
  checkedAt = performance.now();
  const { build } = await call("GET /v1/instance", {});
  newBuild.value = build !== own;
}

export function watchBuild(): void {
  const checkQuietly = (): void => void check().catch(() => {});
  addEventListener("focus", checkQuietly);
  setInterval(checkQuietly, CHECK_MS);
}
