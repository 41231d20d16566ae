// The health of the server, as a dot with its name.
import { offlineSince } from "../api/call.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { Badge, type Tone } from "../components/badge.tsx";

const WORDS: Record<string, [Tone, string]> = {
  ok: ["good", "Healthy"],
  degraded: ["warn", "Degraded"],
  down: ["bad", "Down"],
};

export function ServerStatus() {
  const { data, problem } = useRead("GET /status", {}, { everyMs: POLL_MS.seldom }).state.value;
  if (problem || offlineSince.value !== null) return <Badge tone="bad">Not reachable</Badge>;
  if (!data) return null;
  const [tone, words] = WORDS[data.status] ?? ["plain", data.status];
  return <Badge tone={tone}>{words}</Badge>;
}
